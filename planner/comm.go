package planner

import (
	"fmt"
	"slices"

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
	ends   *kindComm // first and last stages: tied embeddings
}

// numKinds bounds the group kinds of package parallel.
const numKinds = int(parallel.ExpertDP) + 1

// kindComm holds the groups of a kind that could differ, each with the groups that share its links.
type kindComm struct {
	members  [][]topology.GPUID
	siblings [][][]topology.GPUID
	prices   map[priceKey]collective.Estimate
	hops     [][]int                                // pipelines: the members that cross each boundary between stages, by their place
	crossed  map[transferKey][]*collective.Estimate // pipelines: the price of a transfer by the place of its members
	paired   *kindComm                              // see pairs
}

// priceKey is everything that the price of a collective on the groups of a kind depends on.
type priceKey struct {
	op       parallel.Op
	bytes    units.Bytes
	dtype    string
	hop      int
	exchange model.Exchange // whose merged copies wireBytes counts; zero without
}

func keyOfPrice(op *model.CollectiveOp) priceKey {
	k := priceKey{op: op.Op, bytes: op.Bytes, dtype: op.DType, hop: op.Hop}
	if op.Exchange != nil && op.Exchange.Merged {
		k.exchange = *op.Exchange
	}
	return k
}

// transferKey is a transfer between stages, whichever boundary it crosses.
type transferKey struct {
	bytes units.Bytes
	dtype string
}

// newComm prepares a seating for pricing; groups are worked out when a kind is first asked for.
func newComm(s *seating, p collective.Pricer, launch collective.Launch, st parallel.Strategy) *comm {
	return &comm{st: st, seats: s, pricer: p, launch: launch}
}

// price is the step.Comm of this seating.
func (m *comm) price(op model.CollectiveOp) (collective.Estimate, error) {
	kc := m.groups(&op)
	k := keyOfPrice(&op)
	if e, ok := kc.prices[k]; ok {
		return e, nil
	}
	if len(kc.members) == 0 {
		return collective.Estimate{}, fmt.Errorf("%s: the strategy has no %s group", op.Name, op.Group)
	}
	if op.Op == parallel.SendRecv && op.Group != parallel.PP {
		kc = kc.pairs()
	}
	var worst collective.Estimate
	for i := range kc.members {
		if !kc.crosses(op.Hop, i) {
			continue
		}
		e, err := m.priceOn(kc, i, &op)
		if err != nil {
			return collective.Estimate{}, err
		}
		if e.Time >= worst.Time {
			worst = e
		}
	}
	if kc.prices == nil {
		kc.prices = map[priceKey]collective.Estimate{}
	}
	kc.prices[k] = worst
	return worst, nil
}

// priceOn prices a collective on the i-th members. Those of a transfer between stages are remembered: neighbouring stages cross
// many boundaries on members that look the same.
func (m *comm) priceOn(kc *kindComm, i int, op *model.CollectiveOp) (collective.Estimate, error) {
	var known []*collective.Estimate
	if kc.hops != nil {
		k := transferKey{op.Bytes, op.DType}
		if known = kc.crossed[k]; known == nil {
			if kc.crossed == nil {
				kc.crossed = map[transferKey][]*collective.Estimate{}
			}
			known = make([]*collective.Estimate, len(kc.members))
			kc.crossed[k] = known
		}
		if e := known[i]; e != nil {
			return *e, nil
		}
	}
	e, err := m.pricer.Price(collective.Request{
		Op: op.Op, Bytes: wireBytes(m.seats.c, kc.members[i], op), DType: op.DType, Launch: m.launch, Members: kc.members[i], Siblings: kc.siblings[i],
	})
	if err == nil && known != nil {
		known[i] = &e
	}
	return e, err
}

// groups returns the groups that a collective runs on.
func (m *comm) groups(op *model.CollectiveOp) *kindComm {
	if op.Group == parallel.PP && (op.Op != parallel.SendRecv || op.Hop == m.st.PP) {
		if m.ends == nil {
			m.ends = m.seats.ends(m.st)
		}
		return m.ends
	}
	kc := m.kinds[op.Group]
	if kc == nil {
		kc = m.seats.family(m.st, op.Group)
		m.kinds[op.Group] = kc
	}
	return kc
}

// crosses says whether the i-th members are a pair of the boundary that a transfer crosses (model.CollectiveOp.Hop).
func (k *kindComm) crosses(hop, i int) bool {
	return hop < 1 || hop > len(k.hops) || slices.Contains(k.hops[hop-1], i)
}

// pairs are the neighbours inside the groups of a kind, which pass something on from rank to rank.
func (k *kindComm) pairs() *kindComm {
	if k.paired != nil {
		return k.paired
	}
	out := &kindComm{}
	k.paired = out
	for i, l := range k.members {
		for a := range len(l) - 1 {
			out.members = append(out.members, l[a:a+2])
			var others [][]topology.GPUID
			for _, s := range k.siblings[i] {
				others = append(others, s[a:a+2])
			}
			out.siblings = append(out.siblings, others)
		}
	}
	return out
}
