package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/fleet/lease"
	"github.com/headgate/headgate/server/sim/scenario"
)

// hasWindows reports whether the windows or the log of a limit end at once, unlike a bucket, which drains steadily.
func hasWindows(l headgate.Limit) bool {
	switch l.Algorithm {
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		return false
	default:
		return true
	}
}

// unitsIn returns how many units drain in a time.
func unitsIn(l headgate.Limit, t time.Duration) float64 {
	return float64(l.Count) * float64(t) / float64(l.Period)
}

// maxExcess returns by how many units a client may be above a limit in a mode.
func maxExcess(s *scenario.Scenario, mode rules.Consistency, l headgate.Limit) int64 {
	most := modeExcess(s, mode, l) + faultExcess(s, mode, l)
	if most > 0 { // units are whole, and the last request may be admitted for one unit
		most += float64(1 + s.Traffic[0].Cost)
	}
	return int64(most)
}

// faultExcess returns how many units are forgotten, or drain too early, because of faults.
func faultExcess(s *scenario.Scenario, mode rules.Consistency, l headgate.Limit) (units float64) {
	wrongClock := s.ClockSkew > 0 && mode == rules.Gossip
	for i := range s.Faults {
		f := &s.Faults[i]
		switch {
		case f.Kind == scenario.Failover && !f.Keep && mode != rules.Async:
			units += float64(l.Capacity()) // in the mode async, nodes know what they and their peers have consumed
		case f.Kind == scenario.RedisClock:
			units += unitsIn(l, time.Duration(max(f.By, -f.By)))
			wrongClock = true
		case f.Kind == scenario.NodeClock && mode == rules.Gossip:
			wrongClock = true
		}
	}
	if wrongClock && hasWindows(l) {
		units += 2 * float64(l.Capacity()) // two windows by that clock overlap a right one
	}
	return units
}

// modeExcess returns how many units a mode admits above the limit if Redis keeps its data and its clock is right.
func modeExcess(s *scenario.Scenario, mode rules.Consistency, l headgate.Limit) float64 {
	leased := 0.0
	if mode == rules.Lease {
		leased = unitsIn(l, cmp.Or(s.LeaseTTL, lease.DefaultTTL)) * float64(s.CountRegions())
	}
	switch {
	case mode == rules.Async || mode == rules.Gossip:
		return asyncExcess(s, l, nodesEver(s)-1, updateAge(s))
	case s.Regions != nil:
		return leased + asyncExcess(s, l, s.Regions.Count-1, updateAge(s))
	default:
		return leased
	}
}

// nodesEver returns the number of nodes that there are at some time, with those that have started again.
func nodesEver(s *scenario.Scenario) int {
	n := s.AllNodes()
	for _, f := range s.Faults {
		n += f.Count
		if f.Kind == scenario.Crash || f.Kind == scenario.NodeClock {
			n++
		}
	}
	return n
}

// outageRecovery is how long nodes take to exchange updates again after a fault.
const outageRecovery = 300 * time.Millisecond

// updateAge returns how old updates of other nodes or regions are at most: an interval and two messages. Between
// regions, each message takes at most twice its mean. During a fault, updates grow older.
func updateAge(s *scenario.Scenario) time.Duration {
	age := 100*time.Millisecond + 2**s.Network.Delay
	if s.Regions != nil {
		age = s.Regions.SyncInterval + 4**s.Regions.Delay
	}
	for _, f := range s.Faults {
		if f.Kind != scenario.Join {
			age += f.For + 2*f.Delay + outageRecovery
			if s.Regions != nil {
				age += s.Regions.SyncInterval
			}
		}
	}
	return age
}

// asyncExcess returns the bound of the mode async, for a number of peers whose updates are of an age: so many requests
// of one client come meanwhile, and in the worst of many such times three standard deviations and three more.
func asyncExcess(s *scenario.Scenario, l headgate.Limit, peers int, age time.Duration) float64 {
	t := &s.Traffic[0]
	attempts := 1
	if t.Retry != nil {
		attempts = t.Retry.Attempts
	}
	requests := float64(t.Rate) * float64(attempts) / float64(t.Clients) * age.Seconds()
	arrivals := (requests + 3*math.Sqrt(requests*float64(attempts)) + 3) * float64(t.Cost)
	return min(float64(peers)*(float64(l.Capacity())+unitsIn(l, age)), arrivals) + 1
}

// convergesAfter returns how long after the last request all nodes agree.
func convergesAfter(s *scenario.Scenario) time.Duration {
	after := 300 * time.Millisecond
	if s.Regions != nil {
		after = 3 * updateAge(s)
	}
	if retry := s.Traffic[0].Retry; retry != nil {
		after += time.Duration(retry.Attempts) * retry.Wait
	}
	return after
}

// outageDrain is the time in which units drain of which nodes do not know when they were used.
const outageDrain = 200 * time.Millisecond

// hasOutage reports whether a fault keeps updates back.
func hasOutage(s *scenario.Scenario) bool {
	return slices.ContainsFunc(s.Faults, func(f scenario.Fault) bool { return f.Kind != scenario.Join })
}

// losesTotals reports whether a Redis server loses its data while a node starts again. Then no note has the units that
// the node consumed before, and it can only follow the levels of its peers.
func losesTotals(s *scenario.Scenario) bool {
	return slices.ContainsFunc(s.Faults, func(lost scenario.Fault) bool {
		return lost.Kind == scenario.Failover && !lost.Keep && slices.ContainsFunc(s.Faults, func(f scenario.Fault) bool {
			starts := f.Kind == scenario.Crash || f.Kind == scenario.NodeClock
			return starts && f.At < lost.At+lost.For && lost.At < f.At+f.For
		})
	})
}

// joinsLate reports whether a node joins after the traffic.
func joinsLate(s *scenario.Scenario) bool {
	return slices.ContainsFunc(s.Faults, func(f scenario.Fault) bool {
		return f.Kind == scenario.Join && f.At >= s.Traffic[0].Until
	})
}

// countsLikeOracle reports whether nodes that have all updates count what the oracle counts. After faults and between
// regions they do not, and in windows they have the debt of those before.
func countsLikeOracle(s *scenario.Scenario) bool {
	return !hasOutage(s) && s.Regions == nil && !hasWindows(s.Limits[0])
}

// drained returns how many units drain in the age of updates.
func drained(s *scenario.Scenario) int64 {
	most := 0.0
	for _, l := range s.Limits {
		most = max(most, unitsIn(l, updateAge(s)))
	}
	return int64(most)
}

// isPlain reports whether clients send more than a bucket admits all the time, so that it is never full. With a second
// limit, the first one is full at times.
func isPlain(s *scenario.Scenario) bool {
	t, l := &s.Traffic[0], s.Limits[0]
	return t.Cost == 1 && t.Retry == nil && t.On == 0 && l.Capacity() == l.Count && len(s.Limits) == 1
}

// maxDisagreement returns by how many units nodes may differ then.
func maxDisagreement(s *scenario.Scenario) (most int64) {
	for _, l := range s.Limits {
		most = max(most, limitDisagreement(s, l))
	}
	return most
}

// limitDisagreement returns by how many units of a limit nodes may differ. Levels are rounded, and the time that an
// update is in transit between regions, or during an outage, is not known. After an outage, a window also has the debt
// of those before it, as far as a node knows of that.
func limitDisagreement(s *scenario.Scenario, l headgate.Limit) int64 {
	switch {
	case s.HasFault(scenario.RedisClock), s.Traffic[0].Retry != nil && s.Traffic[0].Retry.Honour,
		hasOutage(s) && (hasWindows(l) || !isPlain(s)):
		return math.MaxInt64
	case s.Regions != nil && isPlain(s) && !hasOutage(s) && !joinsLate(s):
		return 2 + int64(unitsIn(l, 4**s.Regions.Delay))
	case s.Regions != nil:
		return 2 + int64(s.Traffic[0].Cost) + int64(unitsIn(l, updateAge(s)))
	case hasOutage(s):
		most := 2 + int64(unitsIn(l, outageDrain))
		if losesTotals(s) {
			most += l.Capacity()
		}
		return most
	case hasWindows(l) || isPlain(s):
		return 2
	default: // a bucket is sometimes full, and nodes know only later that it was not
		most := 2 + int64(s.Traffic[0].Cost) + int64(unitsIn(l, updateAge(s)))
		if joinsLate(s) {
			most += l.Capacity()
		}
		return most
	}
}
