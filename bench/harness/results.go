package harness

import (
	"time"
)

// A Role is the role of a contender in the tables.
type Role string

// The roles.
const (
	Ours  Role = "ours"
	Peer  Role = "peer"
	Floor Role = "floor"
	Loop  Role = "loop" // the harness alone
)

// Results are all measurements of a part in one run. They are written with -json, and the report is made from them
// only.
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
	Steady   *PaceTable // at a constant, low rate
	Noise    *PaceTable // rows whenQuiet and whenFlooded
	Service  []ServiceTable
	Clients  *ClientsResult
	Rules    *RulesResult
	Control  []TestRow
	Failures []string
	Bars     []Bar
}

// A ModuleVersion is a measured module and its version.
type ModuleVersion struct{ Module, Version string }

// A SpeedTable has the results of one speed scenario.
type SpeedTable struct {
	ID         string
	Title      string
	Goroutines int
	Rows       []SpeedRow
}

// A SpeedRow has the results of one contender. Nanoseconds are wall time divided by the number of decisions of all
// goroutines together.
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

// A MemoryRow has one contender's memory at the measured sizes.
type MemoryRow struct {
	Contender string
	Title     string
	Role      Role
	Fillings  []Filling
}

// A HugeResult compares the largest table with the floor of the same size.
type HugeResult struct {
	Keys     int
	Fillings map[string]Filling
	Speed    []SpeedTable
	// Live is the number of keys that headgate still had at the end of the measurements.
	Live int64
}

// A GcRow has the cost of garbage collections in a process with a contender.
type GcRow struct {
	Contender string
	Title     string
	Role      Role
	Keys      int
	CPU       spread // ms
	Pause     spread // ms
}

// A GrowthRow has the durations of insertions, run by run.
type GrowthRow struct {
	Contender string
	Title     string
	Role      Role
	Runs      []Growth
}

// Median returns the median of one figure over the runs.
func (r GrowthRow) Median(of func(Growth) int64) float64 {
	var samples []float64
	for _, run := range r.Runs {
		samples = append(samples, float64(of(run)))
	}
	return MedianOf(samples)
}

// SpeedNamed returns the table with a name, or nil.
func (r *Results) SpeedNamed(id string) *SpeedTable { return TableIn(r.Speed, id) }

// TableIn returns the table with an ID, or nil.
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

// ServiceNamed returns the table with a name, or nil.
func (r *Results) ServiceNamed(id string) *ServiceTable {
	for i := range r.Service {
		if r.Service[i].ID == id {
			return &r.Service[i]
		}
	}
	return nil
}
