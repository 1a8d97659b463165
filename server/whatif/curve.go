package whatif

import (
	"math"
	"slices"

	"github.com/headgate/headgate"
)

// unaffected is the share of clients for Result.Unaffected99.
const unaffected = 0.99

// curveSteps is the number of points of the curve below the limit, and also above it. Each point is √2 times the one
// before it, so the curve is from 1/16 to 16 times the limit.
const curveSteps = 8

// chooseLimit chooses the limit that the curve varies. It is the limit that would deny the most requests if it were the
// only limit.
func (r *run) chooseLimit() error {
	most := -1.0
	for i := range r.terms.limits {
		if len(r.terms.limits) == 1 {
			break
		}
		s, err := r.replay(r.terms.limits[i:i+1], nil)
		if err != nil {
			return err
		}
		if denied := s.denied.certain + float64(r.traffic.OneIn)*s.denied.sampled; denied > most {
			most, r.terms.varied = denied, i
		}
	}
	return nil
}

// curveCounts returns the counts of the varied limit for the points of the curve, in ascending order.
func curveCounts(t *ruleTerms) []int64 {
	if len(t.limits) == 0 {
		return nil
	}
	limit := t.limits[t.varied]
	var counts []int64
	for i := -curveSteps; i <= curveSteps; i++ {
		n := twoDigits(float64(limit.Count) * math.Pow(2, float64(i)/2))
		if i == 0 {
			n = limit.Count
		}
		if _, ok := withCount(limit, n); ok {
			counts = append(counts, n)
		}
	}
	slices.Sort(counts)
	return slices.Compact(counts)
}

// twoDigits rounds a number to two significant digits. The result is at least 1.
func twoDigits(n float64) int64 {
	unit := math.Pow(10, math.Floor(math.Log10(max(n, 1)))-1)
	return max(1, int64(math.Round(math.Round(n/unit)*unit)))
}

// withCount returns the limit l with another count. The burst changes in proportion. ok is false if the new limit is
// invalid.
func withCount(l headgate.Limit, count int64) (headgate.Limit, bool) {
	if l.Burst > 0 {
		l.Burst = max(1, int64(math.Round(float64(l.Burst)/float64(l.Count)*float64(count))))
	}
	l.Count = count
	return l, count > 0 && l.Validate() == nil
}

// curve sets the curve of a result, and the limit that 99 % of the clients do not notice.
func (r *run) curve(result *Result, counts []int64, done func(int)) error {
	if len(counts) == 0 {
		return nil
	}
	sample := *r.traffic
	sample.Clients = slices.Clone(sample.Clients)
	for sample.Events() > curveEvents && sample.OneIn < 1<<40 {
		before := sample.Events()
		if sample.Thin(sample.OneIn * 2); sample.Events() > before*9/10 {
			break // clients that are AlwaysSampled send most of the requests
		}
	}
	sampleRun := newRun(r.ctx, &sample, r.terms)
	for i, count := range counts {
		point, err := sampleRun.point(count)
		if err != nil {
			return err
		}
		result.Curve = append(result.Curve, *point)
		done(i)
	}
	var err error
	result.Unaffected99, err = sampleRun.lowest(counts)
	return err
}

// point returns the outcome at a count of the varied limit.
func (r *run) point(count int64) (*Point, error) {
	limit, limits := r.limits(count)
	s, err := r.replay(limits, nil)
	if err != nil {
		return nil, err
	}
	oneIn := r.traffic.OneIn
	return &Point{
		Limit: limit.String(), Count: count, Denied: s.denied.estimate(oneIn), Affected: s.affected.estimate(oneIn),
		Unaffected: s.share(oneIn),
	}, nil
}

// limits returns the limits of the rule, with the given count for the varied limit.
func (r *run) limits(count int64) (varied headgate.Limit, all []headgate.Limit) {
	all = slices.Clone(r.terms.limits)
	at := r.terms.varied
	all[at], _ = withCount(all[at], count)
	return all[at], all
}

// lowest returns the lowest count of the varied limit at which 99 % of the clients are not affected. It returns nil if
// there is no such count.
func (r *run) lowest(counts []int64) (*Point, error) {
	valid := func(count int64) bool {
		_, ok := withCount(r.terms.limits[r.terms.varied], count)
		return ok
	}
	most := int64(0) // the largest number of units of a client
	for _, c := range r.traffic.Clients {
		units := int64(0)
		for i := range c.Events {
			units += int64(c.Events[i].Count) * int64(c.Events[i].Cost)
		}
		most = max(most, units)
	}
	low, high := int64(0), counts[0] // the count low affects too many clients
	for {
		ok, err := r.mostUnaffected(high)
		if err != nil {
			return nil, err
		}
		if ok {
			break
		}
		if low = high; !valid(high*2) || high > most {
			return nil, nil //nolint:nilnil // other limits of the rule, or blocks, affect more than 1 % of the clients
		}
		high *= 2
	}
	for high-low > max(1, low/200) { // an error of half a percent does not matter
		middle := low + (high-low)/2
		ok, err := r.mostUnaffected(middle)
		if err != nil {
			return nil, err
		}
		if ok {
			high = middle
		} else {
			low = middle
		}
	}
	return r.point(high)
}

// mostUnaffected reports whether 99 % of the clients are not affected at a count of the varied limit.
func (r *run) mostUnaffected(count int64) (bool, error) {
	_, limits := r.limits(count)
	var clients, affected sum
	p := &player{}
	for i, c := range r.traffic.Clients {
		if i%checkEvery == 0 && r.ctx.Err() != nil {
			return false, r.ctx.Err()
		}
		if err := p.prepare(r.termsAt(i, limits), c.Key); err != nil {
			return false, err
		}
		clients.add(c, 1)
		if p.play(c, true).Denied > 0 {
			affected.add(c, 1)
		}
	}
	s := &sums{clients: clients, affected: affected}
	return s.share(r.traffic.OneIn) >= unaffected, nil
}
