package scenario

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A Variant is a combination of an algorithm and a mode. A scenario compares its variants.
type Variant struct {
	Limits []headgate.Limit
	Mode   rules.Consistency
}

// Algorithm returns the algorithm of the variant's first limit.
func (v *Variant) Algorithm() headgate.Algorithm { return v.Limits[0].Algorithm }

// Variants returns all combinations of algorithms and modes that a valid scenario compares.
func (s *Scenario) Variants() []Variant {
	sets := [][]headgate.Limit{s.Limits}
	if len(s.Algorithms) > 0 {
		sets = nil
	}
	for _, a := range s.Algorithms {
		var limits []headgate.Limit
		for _, l := range s.Limits {
			if changed, err := WithAlgorithm(l, a); err == nil {
				limits = append(limits, changed)
			}
		}
		sets = append(sets, limits)
	}
	var all []Variant
	for _, limits := range sets {
		for _, mode := range s.Modes {
			all = append(all, Variant{limits, mode})
		}
	}
	return all
}

// WithAlgorithm returns a limit of the same rate with the algorithm a. It keeps the burst only if a allows one.
func WithAlgorithm(l headgate.Limit, a headgate.Algorithm) (headgate.Limit, error) {
	changed := headgate.Limit{Algorithm: a, Count: l.Count, Period: l.Period}
	switch a {
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		changed.Burst = l.Burst
	}
	return changed, changed.Validate()
}

// Judge returns the limit by which decisions under the limit l are judged. It has the algorithm *by if by is not nil.
// Otherwise it has the same algorithm as l, with one exception: for sliding-window and sliding-buckets it has
// sliding-log, because they approximate it.
func Judge(l headgate.Limit, by *headgate.Algorithm) (headgate.Limit, error) {
	switch {
	case by != nil:
		return WithAlgorithm(l, *by)
	case l.Algorithm == headgate.SlidingWindow, l.Algorithm == headgate.SlidingBuckets:
		return WithAlgorithm(l, headgate.SlidingLog)
	default:
		return l, nil
	}
}
