package harness

import (
	"fmt"
	"slices"
	"time"
)

// P50 returns the median of a window.
func P50(p Pacing) int64 { return p.P50 }

// P99 returns the 99th percentile of a window.
func P99(p Pacing) int64 { return p.P99 }

// P999 returns the 99.9th percentile of a window.
func P999(p Pacing) int64 { return p.P999 }

// CalmP50 returns the median of the requests that no stall has touched.
func CalmP50(p Pacing) int64 { return p.Calm.P50 }

// A LoadTable has the results of one scenario at full load.
type LoadTable struct {
	ID          string
	Title       string
	Connections int
	Rows        []LoadRow
}

// A LoadRow has the results of one front. Lists have one element per round, and the rounds are the same for all fronts.
type LoadRow struct {
	Contender string
	Title     string
	Role      Role
	Rates     []float64 // requests a second
	Rate      spread
	// CPU is the CPU time per request, in microseconds. Busy is the share of time in which the front ran. LoadBusy is the
	// share of time in which anything ran on the core of the load and the upstream.
	CPU, Busy, LoadBusy float64
	// P99 is the 99th percentile of the time from when a request was sent to its answer, in nanoseconds; 0 if it is not
	// known.
	P99 float64
}

// Full reports whether the front ran almost all the time, so that nothing else limited it.
func (r *LoadRow) Full() bool { return r.Busy >= 0.9 }

// Row returns the row of a contender, or nil.
func (t *LoadTable) Row(name string) *LoadRow {
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

// LoadNamed returns the table with a name, or nil.
func (r *Results) LoadNamed(id string) *LoadTable {
	for i := range r.Load {
		if r.Load[i].ID == id {
			return &r.Load[i]
		}
	}
	return nil
}

// Against returns how many times as fast as another front this one was, round by round. If the machine is slow for a
// while, both are affected.
func (r *LoadRow) Against(other *LoadRow) spread {
	var ratios []float64
	for i := range min(len(r.Rates), len(other.Rates)) {
		ratios = append(ratios, r.Rates[i]/other.Rates[i])
	}
	return SpreadOf(ratios)
}

// A PaceTable has the results of fronts that get the same rate of requests, which is less than they can serve.
type PaceTable struct {
	Rate        float64 // requests a second
	Full        float64 // how many of them ours answered when it got as many as it could
	Connections int
	// Watched reports whether stalls were watched for all the time. Stalls is their number, Stalled their total duration,
	// and Took the duration of the measurement.
	Watched bool
	// First reports whether the measured fronts had priority over all other processes on their core.
	First         bool
	Stalls        int
	Stalled, Took time.Duration
	Longest       time.Duration // of the stalls
	Rows          []PaceRow
}

// A PaceRow has the results of one front, window by window.
type PaceRow struct {
	Contender string
	Title     string
	Role      Role
	Runs      []Pacing
}

// Row returns the row of a contender, or nil.
func (t *PaceTable) Row(name string) *PaceRow {
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

// Spread returns the spread of one figure over the windows, in nanoseconds.
func (r *PaceRow) Spread(of func(Pacing) int64) spread {
	var samples []float64
	for _, run := range r.Runs {
		if run.Requests > 0 {
			samples = append(samples, float64(of(run)))
		}
	}
	return SpreadOf(samples)
}

// Added returns the difference of a figure to that of another front, window by window, in nanoseconds.
func (r *PaceRow) Added(other *PaceRow, of func(Pacing) int64) spread {
	var samples []float64
	for i := range min(len(r.Runs), len(other.Runs)) {
		if r.Runs[i].Requests > 0 && other.Runs[i].Requests > 0 {
			samples = append(samples, float64(of(r.Runs[i])-of(other.Runs[i])))
		}
	}
	return SpreadOf(samples)
}

// Times returns the ratio of a figure to that of another row, window by window.
func (r *PaceRow) Times(other *PaceRow, of func(Pacing) int64) spread {
	var samples []float64
	for i := range min(len(r.Runs), len(other.Runs)) {
		if r.Runs[i].Requests > 0 && other.Runs[i].Requests > 0 {
			samples = append(samples, float64(of(r.Runs[i]))/float64(max(of(other.Runs[i]), 1)))
		}
	}
	return SpreadOf(samples)
}

// CPUOfARequest returns the CPU time per request in all windows, in microseconds.
func (r *PaceRow) CPUOfARequest() float64 {
	var sent int64
	var cpu time.Duration
	for _, run := range r.Runs {
		sent, cpu = sent+run.Sent, cpu+run.CPU
	}
	return cpu.Seconds() * 1e6 / float64(max(sent, 1))
}

// Flood returns how many requests the flooding client has sent, and how many of them were denied.
func (r *PaceRow) Flood() (sent, refused int64) {
	for _, run := range r.Runs {
		sent, refused = sent+run.Flooded, refused+run.Refused
	}
	return sent, refused
}

// The rows of the table of noise.
const (
	WhenQuiet   = "quiet"
	WhenFlooded = "flooded"
)

// Calmly returns the same row without windows in which stalls touched most requests.
func (r *PaceRow) Calmly() *PaceRow {
	made := *r
	made.Runs = slices.Clone(r.Runs)
	for i, run := range r.Runs {
		if 2*run.Calm.Requests < run.Requests {
			made.Runs[i] = Pacing{}
		}
	}
	return &made
}

// Touched returns the share of requests that stalls have touched.
func (r *PaceRow) Touched() float64 {
	var all, calm int64
	for _, run := range r.Runs {
		all, calm = all+run.Requests, calm+run.Calm.Requests
	}
	return 1 - float64(calm)/float64(max(all, 1))
}

// A Pacing has the results of a window. Times are in nanoseconds, from the due time of a request until its response has
// arrived.
type Pacing struct {
	Requests            int64
	P50, P99, P999, Max int64
	// Late is the p99 of the delay between the time at which a request could be sent and the time at which it was sent:
	// the load's own share of the response times. A request could be sent when it was due and a connection was free.
	Late int64
	// Flooded is the number of requests that the flooding client has sent meanwhile, and Refused how many of them were
	// denied.
	Flooded, Refused int64
	// Sent is the number of all requests, including those that only warm and those of the flooding client, and CPU the
	// time for which the server ran meanwhile.
	Sent int64
	CPU  time.Duration
	// Calm has the results of the requests that no stall has touched.
	Calm CalmPacing
}

// A CalmPacing has the results of the requests of a window that no stall has touched.
type CalmPacing struct{ Requests, P50, P99, P999 int64 }

// Quantiles returns the table cells for response times.
func Quantiles(row *PaceRow, median, tail, far func(Pacing) int64) string {
	ends := row.Spread(tail)
	return fmt.Sprintf("%s | %s | %s–%s | %s", HumanDuration(row.Spread(median).Median), HumanDuration(ends.Median),
		HumanDuration(ends.Q1), HumanDuration(ends.Q3), HumanDuration(row.Spread(far).Median))
}
