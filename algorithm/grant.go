package algorithm

import "github.com/headgate/headgate"

// Grantable reports whether units of an algorithm can be taken ahead of their use, to be handed out by the caller that took
// them. The others would have to know when each unit is used, or by whom.
func Grantable(a headgate.Algorithm) bool { return grantable[a] }

var grantable = func() (can [1 << 8]bool) { // by any number, valid or not
	for a, steps := range all {
		can[a] = steps.lua().room != ""
	}
	return can
}()

// Grant takes units that the caller hands out itself: at least need units, which are at least 1, or nothing; at most want;
// and no more than the part 1/share of what remains, unless need is more than that. The decision is that of a Take of the
// units that were granted, which its receipt tells, or of need if there are not that many. The error is
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
