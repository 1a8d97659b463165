package algorithm

import "github.com/headgate/headgate"

// Grantable reports whether a caller can take units of an algorithm's limits in advance and hand them out itself. Other
// algorithms need to know when each unit is used, or by which client.
func Grantable(a headgate.Algorithm) bool { return grantable[a] }

var grantable = func() (grantable [1 << 8]bool) { // indexed by any uint8, so that an invalid algorithm does not panic
	for a, steps := range all {
		grantable[a] = steps.lua().room != "" // Redis needs a function that returns the remaining units
	}
	return grantable
}()

// Grant takes units that the caller hands out itself: at least need (1 or more) and at most want, and more than need
// only up to 1/share of the remaining units. If fewer than need units remain, it takes nothing and returns the decision
// that denies need units. Otherwise the decision's receipt says how many units were granted. The error is
// headgate.ErrUnsupported if the algorithm is not Grantable.
func (p *Plan) Grant(s State, now, need, want, share int64) (State, headgate.Decision, error) {
	if !Grantable(p.limit.Algorithm) {
		return s, headgate.Decision{}, headgate.ErrUnsupported
	}
	n := need
	if remaining := p.Decide(s, now, 0).Remaining; need <= remaining {
		n = min(max(remaining/share, need), max(want, need))
	}
	s, d := p.Take(s, now, n, 0)
	return s, d, nil
}
