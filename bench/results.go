package main

import "time"

// results are everything that a run measured of a part. They are what -json writes, and all that the report is made from.
type results struct {
	Part     string
	Started  time.Time
	Took     time.Duration
	Pieces   int // in which it was measured, if more than one
	Quick    bool
	Only     string
	Sizes    sizes
	Machine  machine
	Versions []moduleVersion
	Speed    []speedTable
	Memory   []memoryRow
	Table    *tableGrowth
	Huge     *hugeResult
	GC       []gcRow
	Growth   []growthRow
	Faults   []faultRow
	Fleet    []fleetTable
	Load     []loadTable
	Pace     *paceTable
	Half     *paceTable // in Redis
	Noise    *paceTable // rows whenQuiet and whenFlooded
	Service  []serviceTable
	Clients  *clientsResult
	Rules    *rulesResult
	Control  []faultRow
	Failures []string
	Bars     []bar
}

// A moduleVersion is what was measured.
type moduleVersion struct{ Module, Version string }

// A speedTable is one scenario of speed.
type speedTable struct {
	ID         string
	Title      string
	Goroutines int
	Rows       []speedRow
}

// A speedRow is one contender in it. Nanoseconds are wall time divided by decisions, of all goroutines together.
type speedRow struct {
	Contender string
	Title     string
	Role      role
	Single    bool
	Variant   bool
	Samples   []float64
	Spread    spread
	Allocs    float64 // a decision
	Admitted  float64 // share of decisions
}

// A memoryRow is one contender's memory at the sizes measured.
type memoryRow struct {
	Contender string
	Title     string
	Role      role
	Fillings  []filling
}

// A hugeResult is the largest table beside the floor of the same size.
type hugeResult struct {
	Keys     int
	Fillings map[string]filling
	Speed    []speedTable
	// Live is how many keys headgate still knew when everything had been measured.
	Live int64
}

// A gcRow is what collections cost a process with a contender in it.
type gcRow struct {
	Contender string
	Title     string
	Role      role
	Keys      int
	CPU       spread // ms
	Pause     spread // ms
}

// A growthRow is how long insertions took, run by run.
type growthRow struct {
	Contender string
	Title     string
	Role      role
	Runs      []growth
}

// median returns the middle of what the runs say of one figure.
func (r growthRow) median(of func(growth) int64) float64 {
	var samples []float64
	for _, run := range r.Runs {
		samples = append(samples, float64(of(run)))
	}
	return medianOf(samples)
}

// speed returns a table of that name, or nil.
func (r *results) speed(id string) *speedTable { return tableIn(r.Speed, id) }

func tableIn(tables []speedTable, id string) *speedTable {
	for i := range tables {
		if tables[i].ID == id {
			return &tables[i]
		}
	}
	return nil
}

// row returns a contender's row, or nil.
func (t *speedTable) row(contender string) *speedRow {
	if t == nil {
		return nil
	}
	for i := range t.Rows {
		if t.Rows[i].Contender == contender {
			return &t.Rows[i]
		}
	}
	return nil
}

// first returns the first row of a role, or nil.
func (t *speedTable) first(of role) *speedRow {
	if t == nil {
		return nil
	}
	for i := range t.Rows {
		if t.Rows[i].Role == of {
			return &t.Rows[i]
		}
	}
	return nil
}

// fastest returns the fastest row of a role, or nil.
func (t *speedTable) fastest(of role) *speedRow {
	if t == nil {
		return nil
	}
	var best *speedRow
	for i := range t.Rows {
		if r := &t.Rows[i]; r.Role == of && (best == nil || r.Spread.Median < best.Spread.Median) {
			best = r
		}
	}
	return best
}
