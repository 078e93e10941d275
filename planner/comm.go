package planner

import (
	"fmt"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
	"rankmap/topology"
)

// comm prices the collectives of one seating. A step waits for the slowest group of a kind, so every group that could
// differ is priced and the slowest counts. Groups that look the same from the machine's side (same classes, same places
// in the node, same pattern of nodes, domains and leaves) are priced once.
type comm struct {
	st     parallel.Strategy
	seats  *seating
	pricer collective.Pricer
	launch collective.Launch
	kinds  [numKinds]*kindComm
	cache  map[commKey]collective.Estimate
}

// numKinds bounds the group kinds of package parallel.
const numKinds = int(parallel.ExpertDP) + 1

// kindComm holds the groups of a kind that could differ, each with the groups that share its links.
type kindComm struct {
	members  [][]topology.GPUID
	siblings [][][]topology.GPUID
}

type commKey struct {
	kind  parallel.Dim
	op    parallel.Op
	bytes units.Bytes
	dtype string
}

// newComm prepares a seating for pricing; groups are worked out when a kind is first asked for.
func newComm(s *seating, p collective.Pricer, launch collective.Launch, st parallel.Strategy) *comm {
	return &comm{st: st, seats: s, pricer: p, launch: launch, cache: map[commKey]collective.Estimate{}}
}

// price is the step.Comm of this seating.
func (m *comm) price(op model.CollectiveOp) (collective.Estimate, error) {
	k := commKey{op.Group, op.Op, op.Bytes, op.DType}
	if e, ok := m.cache[k]; ok {
		return e, nil
	}
	kc := m.kinds[op.Group]
	if kc == nil {
		kc = m.seats.distinct(m.st, op.Group)
		m.kinds[op.Group] = kc
	}
	if op.Group == parallel.PP && op.Op != parallel.SendRecv {
		kc = m.seats.ends(m.st)
	}
	if len(kc.members) == 0 {
		return collective.Estimate{}, fmt.Errorf("%s: the strategy has no %s group", op.Name, op.Group)
	}
	var worst collective.Estimate
	for i, l := range kc.members {
		e, err := m.pricer.Price(collective.Request{
			Op: op.Op, Bytes: op.Bytes, DType: op.DType, Launch: m.launch, Members: l, Siblings: kc.siblings[i],
		})
		if err != nil {
			return collective.Estimate{}, err
		}
		if i == 0 || e.Time > worst.Time {
			worst = e
		}
	}
	m.cache[k] = worst
	return worst, nil
}
