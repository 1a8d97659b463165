package harness

import (
	"errors"
	"runtime"

	"github.com/headgate/headgate"
)

// A ClientsResult is what registered clients cost.
type ClientsResult struct {
	Clients int
	// Heap and RSS are the bytes that they take if no two have the same limit.
	Heap, RSS int64
	Asked     []Series // the first are not registered
}

// A Series is how long something took that was done over and over.
type Series struct {
	Name, Title string
	Took        []float64 // ns, round by round
	Allocs      float64
}

// Measure adds one round of what takes so many nanoseconds each time, done so many times.
func (t *Series) Measure(times int, round func() (float64, error)) error {
	FreeMemory()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	took, err := round()
	if err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	t.Took = append(t.Took, took)
	t.Allocs = max(t.Allocs, float64(after.Mallocs-before.Mallocs)/float64(times))
	return nil
}

// ByUser is the attribute that clients are identified by.
var ByUser = headgate.Attribute{Kind: headgate.AttrUser}

// ErrDenied ends a measurement in which a request was denied.
var ErrDenied = errors.New("a request was denied")

// A FleetTable is what one scenario measured of limits that hosts share, ready for the report, and the bars it is held
// against.
type FleetTable struct {
	Scenario string
	Title    string
	Columns  []string
	Rows     [][]string
	Bars     []Bar
}

// A RulesResult is how long that took.
type RulesResult struct {
	Requests int
	Match    []Series // by how many rules there are
	Decide   []Series // three bare takes and a decision about the same keys, for each of threeLimits
}

// Row returns what has a name, or nil.
func (r *RulesResult) Row(name string) *Series {
	if r == nil {
		return nil
	}
	for _, rows := range [][]Series{r.Match, r.Decide} {
		for i := range rows {
			if rows[i].Name == name {
				return &rows[i]
			}
		}
	}
	return nil
}

// A TestRow is what a test measured.
type TestRow struct {
	Test, What string
	Passed     bool
	Said       []string
}
