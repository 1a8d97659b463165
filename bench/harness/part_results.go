package harness

import (
	"errors"
	"runtime"

	"github.com/headgate/headgate"
)

// A ClientsResult has the costs of registered clients.
type ClientsResult struct {
	Clients int
	// Heap and RSS are the bytes of registered clients that all have different limits.
	Heap, RSS int64
	Asked     []Series // the first are not registered
}

// A Series has the durations of an operation, round by round.
type Series struct {
	Name, Title string
	Took        []float64 // ns, round by round
	Allocs      float64
}

// Measure adds a round in which the operation was executed the given number of times, with its nanoseconds per
// execution.
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

// A FleetTable has the results of one scenario of shared limits, formatted for the report, and its bars.
type FleetTable struct {
	Scenario string
	Title    string
	Columns  []string
	Rows     [][]string
	Bars     []Bar
}

// A RulesResult has the durations of rule matching and decisions.
type RulesResult struct {
	Requests int
	Match    []Series // by how many rules there are
	Decide   []Series // three bare takes and a decision about the same keys, for each of threeLimits
}

// Row returns the row with a name, or nil.
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

// A TestRow has the results of a test.
type TestRow struct {
	Test, What string
	Passed     bool
	Said       []string
}
