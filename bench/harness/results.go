package harness

import (
	"time"
)

// A Role says what a contender stands for in the tables.
type Role string

// The roles.
const (
	Ours  Role = "ours"
	Peer  Role = "peer"
	Floor Role = "floor"
	Loop  Role = "loop" // the harness alone
)

// Results are everything that a run measured of a part. They are what -json writes, and all that the report is made
// from.
type Results struct {
	Part     string
	Started  time.Time
	Took     time.Duration
	Pieces   int // in which it was measured, if more than one
	Quick    bool
	Only     string
	Sizes    sizes
	Machine  Machine
	Versions []ModuleVersion
	Speed    []SpeedTable
	Memory   []MemoryRow
	Table    *TableGrowth
	Huge     *HugeResult
	GC       []GcRow
	Growth   []GrowthRow
	Faults   []TestRow
	Fleet    []FleetTable
	Load     []LoadTable
	Pace     *PaceTable
	Half     *PaceTable // in Redis
	Noise    *PaceTable // rows whenQuiet and whenFlooded
	Service  []ServiceTable
	Clients  *ClientsResult
	Rules    *RulesResult
	Control  []TestRow
	Failures []string
	Bars     []Bar
}

// A ModuleVersion is what was measured.
type ModuleVersion struct{ Module, Version string }

// A SpeedTable is one scenario of speed.
type SpeedTable struct {
	ID         string
	Title      string
	Goroutines int
	Rows       []SpeedRow
}

// A SpeedRow is one contender in it. Nanoseconds are wall time divided by decisions, of all goroutines together.
type SpeedRow struct {
	Contender string
	Title     string
	Role      Role
	Single    bool
	Variant   bool
	Samples   []float64
	Spread    spread
	Allocs    float64 // a decision
	Admitted  float64 // share of decisions
}

// A MemoryRow is one contender's memory at the sizes measured.
type MemoryRow struct {
	Contender string
	Title     string
	Role      Role
	Fillings  []Filling
}

// A HugeResult is the largest table beside the floor of the same size.
type HugeResult struct {
	Keys     int
	Fillings map[string]Filling
	Speed    []SpeedTable
	// Live is how many keys headgate still knew when everything had been measured.
	Live int64
}

// A GcRow is what collections cost a process with a contender in it.
type GcRow struct {
	Contender string
	Title     string
	Role      Role
	Keys      int
	CPU       spread // ms
	Pause     spread // ms
}

// A GrowthRow is how long insertions took, run by run.
type GrowthRow struct {
	Contender string
	Title     string
	Role      Role
	Runs      []Growth
}

// Median returns the middle of what the runs say of one figure.
func (r GrowthRow) Median(of func(Growth) int64) float64 {
	var samples []float64
	for _, run := range r.Runs {
		samples = append(samples, float64(of(run)))
	}
	return MedianOf(samples)
}

// SpeedNamed returns the table of that name, or nil.
func (r *Results) SpeedNamed(id string) *SpeedTable { return TableIn(r.Speed, id) }

// TableIn returns the table of that ID, or nil.
func TableIn(tables []SpeedTable, id string) *SpeedTable {
	for i := range tables {
		if tables[i].ID == id {
			return &tables[i]
		}
	}
	return nil
}

// Row returns a contender's row, or nil.
func (t *SpeedTable) Row(contender string) *SpeedRow {
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
func (t *SpeedTable) first(of Role) *SpeedRow {
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
func (t *SpeedTable) fastest(of Role) *SpeedRow {
	if t == nil {
		return nil
	}
	var best *SpeedRow
	for i := range t.Rows {
		if r := &t.Rows[i]; r.Role == of && (best == nil || r.Spread.Median < best.Spread.Median) {
			best = r
		}
	}
	return best
}

// ServiceNamed returns a table of that name, or nil.
func (r *Results) ServiceNamed(id string) *ServiceTable {
	for i := range r.Service {
		if r.Service[i].ID == id {
			return &r.Service[i]
		}
	}
	return nil
}
