package traffic

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// MergeSeries adds up the series of several nodes for the same query. The clocks of the nodes may differ by a few
// steps, so the result has the steps of the latest series. MergeSeries returns nil if the list is empty.
func MergeSeries(list []*Series, limit int) *Series {
	list = slices.DeleteFunc(slices.Clone(list), func(s *Series) bool { return s == nil })
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b *Series) int { return b.Start.Compare(a.Start) })
	latest := list[0]
	step, err := time.ParseDuration(latest.Step)
	count := len(latest.Total.Requests)
	merged := &Series{
		Window: latest.Window, Step: latest.Step, Start: latest.Start, Rules: []RuleSeries{}, Total: zeroColumns(count),
	}
	byRule := map[string]*RuleSeries{}
	for _, s := range list {
		if s.Step != latest.Step || err != nil {
			continue
		}
		shift := int(latest.Start.Sub(s.Start) / step)
		merged.Total.add(&s.Total, shift)
		merged.MoreRules = max(merged.MoreRules, s.MoreRules)
		for i := range s.Rules {
			sum := byRule[s.Rules[i].Rule]
			if sum == nil {
				sum = &RuleSeries{s.Rules[i].Rule, zeroColumns(count)}
				byRule[sum.Rule] = sum
			}
			sum.add(&s.Rules[i].Columns, shift)
		}
	}
	for _, sum := range byRule {
		merged.Rules = append(merged.Rules, *sum)
	}
	slices.SortFunc(merged.Rules, func(a, b RuleSeries) int {
		return cmp.Or(cmp.Compare(total(b.Requests), total(a.Requests)), cmp.Compare(a.Rule, b.Rule))
	})
	if over := len(merged.Rules) - limit; over > 0 {
		merged.Rules, merged.MoreRules = merged.Rules[:limit], merged.MoreRules+over
	}
	return merged
}

func total(list []uint64) (sum uint64) {
	for _, n := range list {
		sum += n
	}
	return sum
}

func zeroColumns(n int) Columns { return columnsOf(make([]Counts, n)) }

// add adds the columns of another node, whose first step is shift steps earlier. The latency is the mean, weighted by
// requests.
func (c *Columns) add(o *Columns, shift int) {
	for i := range c.Requests {
		j := i + shift
		if j >= len(o.Requests) || j >= len(o.LatencyUS) {
			return
		}
		if sum := c.Requests[i] + o.Requests[j]; sum > 0 {
			mean := (c.LatencyUS[i]*float64(c.Requests[i]) + o.LatencyUS[j]*float64(o.Requests[j])) / float64(sum)
			c.LatencyUS[i] = math.Round(mean*100) / 100
		}
		for _, pair := range [...][2][]uint64{
			{c.Requests, o.Requests},
			{c.Allowed, o.Allowed},
			{c.Denied, o.Denied},
			{c.Delayed, o.Delayed},
			{c.ShadowDenied, o.ShadowDenied},
			{c.Degraded, o.Degraded},
			{c.Cost, o.Cost},
		} {
			if j < len(pair[1]) {
				pair[0][i] += pair[1][j]
			}
		}
	}
}
