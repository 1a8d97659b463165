package core

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// A speedGroup is a list of speed scenarios that share their workers.
type speedGroup struct {
	Name    string
	seconds float64
	quota   string
	hot     bool // one key instead of sizes.Live
	Cases   []SpeedCase
}

// A SpeedCase is one table of a group.
type SpeedCase struct {
	Id         string
	Order      string
	Goroutines int
	Title      string // with a verb for the number of keys
}

// many is the number of goroutines that use one hot key at the same time.
func many() int { return 8 * runtime.GOMAXPROCS(0) }

// SpeedGroups returns the groups of speed scenarios.
func SpeedGroups() []speedGroup {
	crowd := fmt.Sprintf("%d goroutines", many())
	return []speedGroup{
		{
			Name: "hot-allowed", seconds: 60, quota: "open", hot: true,
			Cases: []SpeedCase{
				{"hot-allowed-1", harness.Uniform, 1, "One hot key, every request admitted, 1 goroutine"},
				{"hot-allowed-many", harness.Uniform, many(), "One hot key, every request admitted, " + crowd},
			},
		},
		{
			Name: "hot-denied", seconds: 50, quota: "steady", hot: true,
			Cases: []SpeedCase{
				{"hot-denied-1", harness.Uniform, 1, "One hot key over its limit, 1 goroutine"},
				{"hot-denied-many", harness.Uniform, many(), "One hot key over its limit, " + crowd},
			},
		},
		{
			Name: "uniform", seconds: 300, quota: "steady",
			Cases: []SpeedCase{
				{"uniform-1", harness.Uniform, 1, "%s live keys, uniform, 1 goroutine"},
				{"uniform-2", harness.Uniform, 2, "%s live keys, uniform, 2 goroutines"},
			},
		},
		{
			Name: "zipf", seconds: 200, quota: "steady",
			Cases: []SpeedCase{
				{"zipf-1", harness.Zipf, 1, "%s live keys, Zipf, 1 goroutine"},
				{"zipf-2", harness.Zipf, 2, "%s live keys, Zipf, 2 goroutines"},
			},
		},
	}
}

// TakesPart reports whether a contender is measured in a group. Contenders with a single counter are measured only on a
// hot key. Contenders that make callers wait are measured only with a quota for which nobody waits.
func (g speedGroup) TakesPart(e limiters.Entry) bool {
	if e.Waits {
		return g.quota == "open" // no caller has to wait
	}
	return g.hot || !e.Single
}

func runSpeed(ctx context.Context, b *harness.Bench, g speedGroup) error {
	keys := b.Sizes.Live
	if g.hot {
		keys = 1
	}
	staff := slices.DeleteFunc(limiters.Entries(), func(e limiters.Entry) bool { return !g.TakesPart(e) })
	var workers []*Worker
	defer func() { StopAll(workers) }()
	const hiring = 0.1 // of the time
	for i, e := range staff {
		b.Progress.At(hiring*float64(i)/float64(len(staff)), g.Name+", filling", e.Name)
		w, err := StartWorker(ctx, e, g.quota, keys, b.Sizes.Picks)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	t := &Turns{
		Workers: workers, Cases: g.Cases, Rounds: b.Sizes.Rounds, Ops: b.Sizes.Ops,
		Tell: func(part float64, stage, detail string) {
			b.Progress.At(hiring+(1-hiring)*part, g.Name+", "+stage, detail)
		},
	}
	tables, err := t.Take()
	if err != nil {
		return err
	}
	for i := range tables {
		if !g.hot {
			tables[i].Title = fmt.Sprintf(tables[i].Title, harness.HumanCount(keys))
		}
	}
	b.Results.Speed = append(b.Results.Speed, tables...)
	return nil
}

// Turns measures several workers in several cases, round by round. In each round every worker runs once, in a new
// random order. The first round is a warm-up and is not counted.
type Turns struct {
	Workers []*Worker
	Cases   []SpeedCase
	Rounds  int
	Ops     int
	Tell    func(part float64, stage, detail string)
}

// Take measures all contenders in turns.
func (t *Turns) Take() ([]harness.SpeedTable, error) {
	type key struct{ test, worker int }
	taken := map[key][]timing{}
	steps, step := (t.Rounds+1)*len(t.Cases)*len(t.Workers), 0
	for round := range t.Rounds + 1 {
		stage := fmt.Sprintf("round %d of %d", round, t.Rounds)
		if round == 0 {
			stage = "warming"
		}
		for i, c := range t.Cases {
			for _, j := range rand.Perm(len(t.Workers)) {
				w := t.Workers[j]
				t.Tell(float64(step)/float64(steps), stage, c.Id+" "+w.Entry.Name)
				step++
				answer, err := w.Do(Request{Do: DoTime, Order: c.Order, Goroutines: c.Goroutines, Ops: t.Ops, Round: round})
				if err != nil {
					return nil, err
				}
				if round > 0 {
					taken[key{i, j}] = append(taken[key{i, j}], answer.Time)
				}
			}
		}
	}
	var tables []harness.SpeedTable
	for i, c := range t.Cases {
		table := harness.SpeedTable{ID: c.Id, Title: c.Title, Goroutines: c.Goroutines}
		for j, w := range t.Workers {
			table.Rows = append(table.Rows, newSpeedRow(w.Entry, taken[key{i, j}]))
		}
		tables = append(tables, table)
	}
	return tables, nil
}

func newSpeedRow(e limiters.Entry, timings []timing) harness.SpeedRow {
	row := harness.SpeedRow{Contender: e.Name, Title: e.Title, Role: e.Role, Single: e.Single, Variant: e.Variant}
	var decisions, admitted int64
	var allocs []float64
	for _, t := range timings {
		row.Samples = append(row.Samples, float64(t.Nanoseconds)/float64(t.Decisions))
		allocs = append(allocs, float64(t.Mallocs)/float64(t.Decisions))
		decisions += t.Decisions
		admitted += t.Admitted
	}
	row.Spread = harness.SpreadOf(row.Samples)
	row.Allocs = harness.MedianOf(allocs)
	row.Admitted = float64(admitted) / float64(max(decisions, 1))
	return row
}
