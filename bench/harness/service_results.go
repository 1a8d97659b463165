package harness

import (
	"fmt"
)

// A ServiceRun has the results of one measurement and the CPU time that the processes used for it.
type ServiceRun struct {
	Rate     float64 // decisions a second
	P50, P99 float64 // ns
	CPU      float64 // that the server used for a decision, in µs
	Busy     float64 // which part of the time it ran
	LoadBusy float64 // and the core of the load
}

// A ServiceTable has the results of one scenario of the part "service".
type ServiceTable struct {
	ID, Title string
	// Timed reports whether the table shows response times instead of rates.
	Timed bool
	Rows  []ServiceRow
}

// A ServiceRow has the results of one contestant, round by round. The rounds are the same for all contestants.
type ServiceRow struct {
	Contender, Title string
	Role             Role
	Runs             []ServiceRun
}

// Row returns the row of a contender, or nil.
func (t *ServiceTable) Row(name string) *ServiceRow {
	if t == nil {
		return nil
	}
	for i := range t.Rows {
		if t.Rows[i].Contender == name {
			return &t.Rows[i]
		}
	}
	return nil
}

// RateOf returns the decisions per second of a run.
func RateOf(r ServiceRun) float64 { return r.Rate }

// P99Of returns the 99th percentile of a run.
func P99Of(r ServiceRun) float64 { return r.P99 }

// CPUOf returns the CPU time per decision of a run.
func CPUOf(r ServiceRun) float64 { return r.CPU }

// BusyOf returns the share of time in which the server ran.
func BusyOf(r ServiceRun) float64 { return r.Busy }

// Spread returns the spread of one figure over the runs.
func (r *ServiceRow) Spread(of func(ServiceRun) float64) spread {
	var samples []float64
	for _, run := range r.Runs {
		samples = append(samples, of(run))
	}
	return SpreadOf(samples)
}

// Against returns the ratio of one contestant's figure to another's, round by round.
func (r *ServiceRow) Against(other *ServiceRow, of func(ServiceRun) float64) spread {
	var ratios []float64
	for i := range min(len(r.Runs), len(other.Runs)) {
		ratios = append(ratios, of(r.Runs[i])/of(other.Runs[i]))
	}
	return SpreadOf(ratios)
}

// RatesAbove returns the bar of making a given multiple of another contestant's decisions per second.
func (t *ServiceTable) RatesAbove(us, them, what string, times float64, note string) Bar {
	want := fmt.Sprintf("≥ %g × %s%s", times, t.title(them), note)
	a, b := t.Row(us), t.Row(them)
	if a == nil || b == nil {
		return UnmeasuredBar(what, want)
	}
	ratio := a.Against(b, RateOf)
	measured := fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %s against %s/s", ratio.Median, ratio.Q1, ratio.Q3,
		HumanRate(a.Spread(RateOf).Median), HumanRate(b.Spread(RateOf).Median))
	const atItsEnd = 0.9
	if a.Spread(BusyOf).Median < atItsEnd { // it could have answered more if it had been asked more
		measured += fmt.Sprintf("; headgate was not at its end, by CPU %.2f ×", b.Against(a, CPUOf).Median)
	}
	return JudgedBar(what, want, measured+")", ratio.Median >= times)
}

// RatesAboveByCPU is like RatesAbove, per second of the server's CPU time.
func (t *ServiceTable) RatesAboveByCPU(us, them, what string, times float64, note string) Bar {
	want := fmt.Sprintf("≥ %g × %s, for each CPU second%s", times, t.title(them), note)
	a, b := t.Row(us), t.Row(them)
	if a == nil || b == nil {
		return UnmeasuredBar(what, want)
	}
	ratio := b.Against(a, CPUOf)
	return JudgedBar(what, want, fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %.2f against %.2f µs)", ratio.Median, ratio.Q1,
		ratio.Q3,
		a.Spread(CPUOf).Median, b.Spread(CPUOf).Median), ratio.Median >= times)
}

// TailBelow returns the bar that the p99 is at most a given multiple of another contestant's p99.
func (t *ServiceTable) TailBelow(us, them, what string, times float64) Bar {
	want := fmt.Sprintf("≤ %g × %s", times, t.title(them))
	a, b := t.Row(us), t.Row(them)
	if a == nil || b == nil {
		return UnmeasuredBar(what, want)
	}
	ratio := a.Against(b, P99Of)
	return JudgedBar(what, want, fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %s against %s)", ratio.Median, ratio.Q1,
		ratio.Q3,
		HumanDuration(a.Spread(P99Of).Median), HumanDuration(b.Spread(P99Of).Median)), ratio.Median <= times)
}

// title returns the name of a contestant in bars.
func (t *ServiceTable) title(name string) string {
	if row := t.Row(name); row != nil {
		return row.Title
	}
	return name
}

// RatesAtLeast returns the bar of making a given number of decisions per second.
func (t *ServiceTable) RatesAtLeast(us, what string, least float64, note string) Bar {
	want := fmt.Sprintf("≥ %s decisions/s on one core%s", HumanRate(least), note)
	a := t.Row(us)
	if a == nil {
		return UnmeasuredBar(what, want)
	}
	rate := a.Spread(RateOf)
	return JudgedBar(what, want, fmt.Sprintf("%s/s (quartiles %s–%s)", HumanRate(rate.Median), HumanRate(rate.Q1),
		HumanRate(rate.Q3)), rate.Median >= least)
}
