package planner

import (
	"rankmap/internal/parallel"
)

// limitKey is what the times of a strategy at its smallest batch depend on where every group may choose its GPUs: not on how many
// replicas there are that have nothing to do with each other.
type limitKey struct {
	tp, pp, cp, ep, expertTP, copies int
	batch                            int // sequences of the fullest replica
	together                         int // serving: replicas that step together
	clients                          int // of those that step together
}

// limitFound is what was found for a limitKey: an outcome that breaks a limit, and which; empty when none is broken.
type limitFound struct {
	o   *Outcome
	why string
}

// limited says that the request bounds times of serving.
func (s *search) limited() bool {
	return s.Workload.Task != string(TrainStep) && (s.Workload.TTFTMs > 0 || s.Workload.TPOTMs > 0)
}

// beyondLimits says that a strategy breaks a limit even on ideal seats and at its smallest batch: no seats and no batch are faster.
// Each replica is priced once, however many of it the numbers of GPUs that are tried hold. The strategy is recorded as lost; what it
// would take on real seats is worked out when it is shown.
func (s *search) beyondLimits(st parallel.Strategy, batches []int) (bool, error) {
	if !s.limited() {
		return false, nil
	}
	if s.loose == nil {
		s.loose, s.beyond = newIdeal(s), map[limitKey]limitFound{}
		s.loose.loose = true
	}
	k := limitKey{
		tp: st.TP, pp: st.PP, cp: st.CP, ep: st.EP, expertTP: st.ExpertTP, copies: st.RedundantExperts, batch: replicaBatch(st, batches[0]),
	}
	if s.Workload.Task == string(Serve) {
		k.together = s.together(st)
		alone := st.DP / k.together
		k.clients = (batches[0] + alone - 1) / alone
	}
	found, ok := s.beyond[k]
	if !ok {
		o, err := s.evaluate(st, s.loose.comm(st), batches[0], true)
		if err != nil {
			return false, err
		}
		found = limitFound{o, s.missesBy(o, 1+boundSlack)}
		s.beyond[k] = found
	}
	if found.why == "" {
		return false, nil
	}
	l := Loser{Strategy: st, Why: found.why, unseated: batches}
	s.near(found.o, l)
	s.counts.ByLimit++
	s.losers = append(s.losers, l)
	return true, nil
}

// seated completes a loser that was dropped by its bound: with its times on real seats.
func (s *search) seated(l Loser) Loser {
	if l.unseated == nil || s.cancelled() {
		return l
	}
	cm, st, err := s.bestOrder(l.Strategy, l.unseated[len(l.unseated)/2])
	if err != nil {
		return l
	}
	o, err := s.evaluate(st, cm.price, l.unseated[0], true)
	if err != nil {
		return l
	}
	if why := s.misses(o); why != "" {
		l.Why = why
	}
	if o.seats = cm.seats; len(l.unseated) == 1 {
		l.Outcome = o
	}
	l.unseated = nil
	return l
}
