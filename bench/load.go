package main

import (
	"slices"
	"time"
)

// A loadTable is one scenario in which fronts get as many requests as they answer.
type loadTable struct {
	ID          string
	Title       string
	Connections int
	Rows        []loadRow
}

// A loadRow is one front in it. What stands in lists is round by round, the same rounds for all.
type loadRow struct {
	Contender string
	Title     string
	Role      role
	Rates     []float64 // requests a second
	Rate      spread
	// CPU is what it used for each request, in microseconds. Busy is the share of time in which it ran, and LoadBusy that in
	// which anything did on the core of the load and the upstream.
	CPU, Busy, LoadBusy float64
}

func newLoadRow(f front, loads []load) loadRow {
	row := loadRow{Contender: f.name, Title: f.title, Role: f.role}
	var cpu, busy, loadBusy []float64
	for _, l := range loads {
		row.Rates = append(row.Rates, l.Rate)
		cpu = append(cpu, l.CPU.Seconds()*1e6/float64(l.Requests))
		busy, loadBusy = append(busy, l.CPU.Seconds()/l.Took.Seconds()), append(loadBusy, l.LoadBusy)
	}
	row.Rate = spreadOf(row.Rates)
	row.CPU, row.Busy, row.LoadBusy = medianOf(cpu), medianOf(busy), medianOf(loadBusy)
	return row
}

// full reports whether the front ran nearly all the time, and not something else held it up.
func (r *loadRow) full() bool { return r.Busy >= 0.9 }

func (t *loadTable) row(name string) *loadRow {
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

// load returns a table of that name, or nil.
func (r *results) load(id string) *loadTable {
	for i := range r.Load {
		if r.Load[i].ID == id {
			return &r.Load[i]
		}
	}
	return nil
}

// against returns how many times as fast as another a front was, round by round: what slows the machine down for a while slows
// both.
func (r *loadRow) against(other *loadRow) spread {
	var ratios []float64
	for i := range min(len(r.Rates), len(other.Rates)) {
		ratios = append(ratios, r.Rates[i]/other.Rates[i])
	}
	return spreadOf(ratios)
}

// A paceTable is fronts that get the same number of requests every second, fewer than they can answer.
type paceTable struct {
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
	Rows          []paceRow
}

// A paceRow is one front in it, window by window.
type paceRow struct {
	Contender string
	Title     string
	Role      role
	Runs      []pacing
}

func (t *paceTable) row(name string) *paceRow {
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

// spread returns what the windows say of one figure, in nanoseconds.
func (r *paceRow) spread(of func(pacing) int64) spread {
	var samples []float64
	for _, run := range r.Runs {
		if run.Requests > 0 {
			samples = append(samples, float64(of(run)))
		}
	}
	return spreadOf(samples)
}

// added returns by how much a figure is above that of another front, window by window, in nanoseconds.
func (r *paceRow) added(other *paceRow, of func(pacing) int64) spread {
	var samples []float64
	for i := range min(len(r.Runs), len(other.Runs)) {
		if r.Runs[i].Requests > 0 && other.Runs[i].Requests > 0 {
			samples = append(samples, float64(of(r.Runs[i])-of(other.Runs[i])))
		}
	}
	return spreadOf(samples)
}

// times returns how many times that of another row a figure is, window by window.
func (r *paceRow) times(other *paceRow, of func(pacing) int64) spread {
	var samples []float64
	for i := range min(len(r.Runs), len(other.Runs)) {
		if r.Runs[i].Requests > 0 && other.Runs[i].Requests > 0 {
			samples = append(samples, float64(of(r.Runs[i]))/float64(max(of(other.Runs[i]), 1)))
		}
	}
	return spreadOf(samples)
}

// flood returns how many requests the one who floods has sent, and how many of them were refused.
func (r *paceRow) flood() (sent, refused int64) {
	for _, run := range r.Runs {
		sent, refused = sent+run.Flooded, refused+run.Refused
	}
	return sent, refused
}

// The rows of the table of noise.
const (
	whenQuiet   = "quiet"
	whenFlooded = "flooded"
)

// calmly returns the same row without the windows in which most requests were touched by stalls: they are empty.
func (r *paceRow) calmly() *paceRow {
	made := *r
	made.Runs = slices.Clone(r.Runs)
	for i, run := range r.Runs {
		if 2*run.Calm.Requests < run.Requests {
			made.Runs[i] = pacing{}
		}
	}
	return &made
}

// touched returns which part of the requests stalls have touched.
func (r *paceRow) touched() float64 {
	var all, calm int64
	for _, run := range r.Runs {
		all, calm = all+run.Requests, calm+run.Calm.Requests
	}
	return 1 - float64(calm)/float64(max(all, 1))
}
