// Package fleetseries adds up the traffic of several nodes.
package fleetseries

import (
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate/server/telemetry/traffic"
	"github.com/headgate/headgate/server/telemetry/traffic/ruleorder"
)

// Merge adds up the series that several nodes have returned for a query. The clocks of the nodes may differ by a few
// steps, so the result has the steps of the latest series. Merge returns nil if the list is empty.
func Merge(list []*traffic.Series, q *traffic.SeriesQuery) *traffic.Series {
	list = slices.DeleteFunc(slices.Clone(list), func(s *traffic.Series) bool { return s == nil })
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b *traffic.Series) int { return b.Start.Compare(a.Start) })
	latest := list[0]
	step, err := time.ParseDuration(latest.Step)
	count := len(latest.Total.Requests)
	merged := &traffic.Series{
		Window: latest.Window, Step: latest.Step, Start: latest.Start, Rules: []traffic.RuleSeries{},
		Total: zeroColumns(count),
	}
	byRule := map[string]*traffic.RuleSeries{}
	for _, s := range list {
		if s.Step != latest.Step || err != nil {
			continue
		}
		shift := int(latest.Start.Sub(s.Start) / step)
		add(&merged.Total, &s.Total, shift)
		merged.MoreRules = max(merged.MoreRules, s.MoreRules)
		for i := range s.Rules {
			rule := s.Rules[i].Rule
			if len(q.Rules) > 0 && !slices.Contains(q.Rules, rule) { // nodes of old versions ignore SeriesQuery.Rules
				continue
			}
			sum := byRule[rule]
			if sum == nil {
				sum = &traffic.RuleSeries{Rule: rule, Columns: zeroColumns(count)}
				byRule[rule] = sum
			}
			add(&sum.Columns, &s.Rules[i].Columns, shift)
		}
	}
	var sums []ruleorder.Sum
	for rule, s := range byRule {
		sums = append(sums, ruleorder.Sum{
			Rule: rule, Requests: total(s.Requests), Denied: total(s.Denied), ShadowDenied: total(s.ShadowDenied),
		})
	}
	slices.SortFunc(sums, func(a, b ruleorder.Sum) int { return q.Order.Compare(&a, &b) })
	for i := range sums {
		if i == q.Limit {
			merged.MoreRules += len(sums) - i
			break
		}
		merged.Rules = append(merged.Rules, *byRule[sums[i].Rule])
	}
	return merged
}

func total(list []uint64) (sum uint64) {
	for _, n := range list {
		sum += n
	}
	return sum
}

func zeroColumns(n int) traffic.Columns {
	zeros := func() []uint64 { return make([]uint64, n) }
	return traffic.Columns{
		Requests: zeros(), Allowed: zeros(), Denied: zeros(), Delayed: zeros(), ShadowDenied: zeros(), Degraded: zeros(),
		Cost: zeros(), LatencyUS: make([]float64, n),
	}
}

// add adds the columns o of another node, whose first step is shift steps earlier, to c. The latency is the mean,
// weighted by requests.
func add(c, o *traffic.Columns, shift int) {
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
