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

// A LoadTable is one scenario in which fronts get as many requests as they answer.
type LoadTable struct {
	ID          string
	Title       string
	Connections int
	Rows        []LoadRow
}

// A LoadRow is one front in it. What stands in lists is round by round, the same rounds for all.
type LoadRow struct {
	Contender string
	Title     string
	Role      Role
	Rates     []float64 // requests a second
	Rate      spread
	// CPU is what it used for each request, in microseconds. Busy is the share of time in which it ran, and LoadBusy that
	// in which anything did on the core of the load and the upstream.
	CPU, Busy, LoadBusy float64
	// P99 is the 99th percentile of the time from when a request was sent to its answer, in nanoseconds; 0 if it is not
	// known.
	P99 float64
}

// Full reports whether the front ran nearly all the time, and not something else held it up.
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

// LoadNamed returns the table of that name, or nil.
func (r *Results) LoadNamed(id string) *LoadTable {
	for i := range r.Load {
		if r.Load[i].ID == id {
			return &r.Load[i]
		}
	}
	return nil
}

// Against returns how many times as fast as another a front was, round by round: what slows the machine down for a
// while slows both.
func (r *LoadRow) Against(other *LoadRow) spread {
	var ratios []float64
	for i := range min(len(r.Rates), len(other.Rates)) {
		ratios = append(ratios, r.Rates[i]/other.Rates[i])
	}
	return SpreadOf(ratios)
}

// A PaceTable is fronts that get the same number of requests every second, fewer than they can answer.
type PaceTable struct {
	Rate        float64 // requests a second
	Full        float64 // how many of them ours answered when it got as many as it could
	Connections int
	// Watched tells that stalls were watched for all the time, Stalls how many there were, Stalled how long they were
	// together, and Took how long all of it took.
	Watched bool
	// First tells that those who were measured came before all others on their core.
	First         bool
	Stalls        int
	Stalled, Took time.Duration
	Longest       time.Duration // of the stalls
	Rows          []PaceRow
}

// A PaceRow is one front in it, window by window.
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

// Spread returns what the windows say of one figure, in nanoseconds.
func (r *PaceRow) Spread(of func(Pacing) int64) spread {
	var samples []float64
	for _, run := range r.Runs {
		if run.Requests > 0 {
			samples = append(samples, float64(of(run)))
		}
	}
	return SpreadOf(samples)
}

// Added returns by how much a figure is above that of another front, window by window, in nanoseconds.
func (r *PaceRow) Added(other *PaceRow, of func(Pacing) int64) spread {
	var samples []float64
	for i := range min(len(r.Runs), len(other.Runs)) {
		if r.Runs[i].Requests > 0 && other.Runs[i].Requests > 0 {
			samples = append(samples, float64(of(r.Runs[i])-of(other.Runs[i])))
		}
	}
	return SpreadOf(samples)
}

// Times returns how many times that of another row a figure is, window by window.
func (r *PaceRow) Times(other *PaceRow, of func(Pacing) int64) spread {
	var samples []float64
	for i := range min(len(r.Runs), len(other.Runs)) {
		if r.Runs[i].Requests > 0 && other.Runs[i].Requests > 0 {
			samples = append(samples, float64(of(r.Runs[i]))/float64(max(of(other.Runs[i]), 1)))
		}
	}
	return SpreadOf(samples)
}

// Flood returns how many requests the one who floods has sent, and how many of them were refused.
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

// Calmly returns the same row without the windows in which most requests were touched by stalls: they are empty.
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

// Touched returns which part of the requests stalls have touched.
func (r *PaceRow) Touched() float64 {
	var all, calm int64
	for _, run := range r.Runs {
		all, calm = all+run.Requests, calm+run.Calm.Requests
	}
	return 1 - float64(calm)/float64(max(all, 1))
}

// A Pacing is a window. Times are in nanoseconds, from when a request was due to when its answer had come.
type Pacing struct {
	Requests            int64
	P50, P99, P999, Max int64
	// Late is how much later requests were sent than they could be, p99: what the load itself adds. A request could be
	// sent when it was due and a connection was free.
	Late int64
	// Flooded is how many requests the one who floods has sent meanwhile, and Refused how many of them were.
	Flooded, Refused int64
	// Calm is of the requests that no stall has touched.
	Calm CalmPacing
}

// CalmPacing is the part of a window that no stall has touched.
type CalmPacing struct{ Requests, P50, P99, P999 int64 }

// Quantiles are the cells that tell how long answers took.
func Quantiles(row *PaceRow, median, tail, far func(Pacing) int64) string {
	ends := row.Spread(tail)
	return fmt.Sprintf("%s | %s | %s–%s | %s", HumanDuration(row.Spread(median).Median), HumanDuration(ends.Median),
		HumanDuration(ends.Q1), HumanDuration(ends.Q3), HumanDuration(row.Spread(far).Median))
}
