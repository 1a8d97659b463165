package algorithm

import "github.com/headgate/headgate"

// Grantable reports whether a caller can take units of an algorithm's limits in advance and hand them out itself. It
// cannot if the algorithm needs to know when each unit is used, or by which client.
func Grantable(a headgate.Algorithm) bool { return grantable[a] }

var grantable = func() (grantable [1 << 8]bool) { // indexed by any uint8, so that an invalid algorithm does not panic
	for a, steps := range all {
		grantable[a] = steps.lua().room != "" // the script of a grant computes the remaining units with this file
	}
	return grantable
}()

// Grant takes units that the caller hands out itself. It takes want units, but at most 1/share of the remaining units.
// It takes at least need units, which is 1 or more. If fewer than need units remain, it takes nothing and returns the
// denial of need units. Otherwise the receipt of the decision says how many units were granted. The error is
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
