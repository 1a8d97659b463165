package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
)

// A speedGroup is scenarios of speed that share their workers.
type speedGroup struct {
	name    string
	seconds float64
	quota   string
	hot     bool // one key instead of sizes.Live
	cases   []speedCase
}

// A speedCase is one table of a group.
type speedCase struct {
	id         string
	order      string
	goroutines int
	title      string // with a verb for the number of keys
}

// many is how many goroutines crowd a hot key.
func many() int { return 8 * runtime.GOMAXPROCS(0) }

func speedGroups() []speedGroup {
	crowd := fmt.Sprintf("%d goroutines", many())
	return []speedGroup{
		{
			name: "hot-allowed", seconds: 60, quota: "open", hot: true,
			cases: []speedCase{
				{"hot-allowed-1", uniform, 1, "One hot key, every request admitted, 1 goroutine"},
				{"hot-allowed-many", uniform, many(), "One hot key, every request admitted, " + crowd},
			},
		},
		{
			name: "hot-denied", seconds: 50, quota: "steady", hot: true,
			cases: []speedCase{
				{"hot-denied-1", uniform, 1, "One hot key over its limit, 1 goroutine"},
				{"hot-denied-many", uniform, many(), "One hot key over its limit, " + crowd},
			},
		},
		{
			name: "uniform", seconds: 300, quota: "steady",
			cases: []speedCase{
				{"uniform-1", uniform, 1, "%s live keys, uniform, 1 goroutine"},
				{"uniform-2", uniform, 2, "%s live keys, uniform, 2 goroutines"},
			},
		},
		{
			name: "zipf", seconds: 200, quota: "steady",
			cases: []speedCase{
				{"zipf-1", zipf, 1, "%s live keys, Zipf, 1 goroutine"},
				{"zipf-2", zipf, 2, "%s live keys, Zipf, 2 goroutines"},
			},
		},
	}
}

// takesPart tells who is measured in a group: those that know keys, and on one key also those that know only one.
func (g speedGroup) takesPart(e entry) bool {
	if e.waits {
		return g.quota == "open" // nobody has to wait
	}
	return g.hot || !e.single
}

func (b *bench) runSpeed(ctx context.Context, g speedGroup) error {
	keys := b.sizes.Live
	if g.hot {
		keys = 1
	}
	staff := slices.DeleteFunc(entries(), func(e entry) bool { return !g.takesPart(e) })
	var workers []*worker
	defer func() { dismissAll(workers) }()
	const hiring = 0.1 // of the time
	for i, e := range staff {
		b.progress.at(hiring*float64(i)/float64(len(staff)), g.name+", filling", e.name)
		w, err := hire(ctx, e, g.quota, keys, b.sizes.Picks)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	t := &turns{
		workers: workers, cases: g.cases, rounds: b.sizes.Rounds, ops: b.sizes.Ops,
		tell: func(part float64, stage, detail string) {
			b.progress.at(hiring+(1-hiring)*part, g.name+", "+stage, detail)
		},
	}
	tables, err := t.take()
	if err != nil {
		return err
	}
	for i := range tables {
		if !g.hot {
			tables[i].Title = fmt.Sprintf(tables[i].Title, humanCount(keys))
		}
	}
	b.results.Speed = append(b.results.Speed, tables...)
	return nil
}

// turns are measurements of several workers in several cases, round by round, in every round everyone once and in a
// new random order. A first round only warms and is not counted.
type turns struct {
	workers []*worker
	cases   []speedCase
	rounds  int
	ops     int
	tell    func(part float64, stage, detail string)
}

func (t *turns) take() ([]speedTable, error) {
	type key struct{ test, worker int }
	taken := map[key][]timing{}
	steps, step := (t.rounds+1)*len(t.cases)*len(t.workers), 0
	for round := range t.rounds + 1 {
		stage := fmt.Sprintf("round %d of %d", round, t.rounds)
		if round == 0 {
			stage = "warming"
		}
		for i, c := range t.cases {
			for _, j := range rand.Perm(len(t.workers)) {
				w := t.workers[j]
				t.tell(float64(step)/float64(steps), stage, c.id+" "+w.entry.name)
				step++
				answer, err := w.do(request{Do: doTime, Order: c.order, Goroutines: c.goroutines, Ops: t.ops, Round: round})
				if err != nil {
					return nil, err
				}
				if round > 0 {
					taken[key{i, j}] = append(taken[key{i, j}], answer.Time)
				}
			}
		}
	}
	var tables []speedTable
	for i, c := range t.cases {
		table := speedTable{ID: c.id, Title: c.title, Goroutines: c.goroutines}
		for j, w := range t.workers {
			table.Rows = append(table.Rows, newSpeedRow(w.entry, taken[key{i, j}]))
		}
		tables = append(tables, table)
	}
	return tables, nil
}

func newSpeedRow(e entry, timings []timing) speedRow {
	row := speedRow{Contender: e.name, Title: e.title, Role: e.role, Single: e.single, Variant: e.variant}
	var decisions, admitted int64
	var allocs []float64
	for _, t := range timings {
		row.Samples = append(row.Samples, float64(t.Nanoseconds)/float64(t.Decisions))
		allocs = append(allocs, float64(t.Mallocs)/float64(t.Decisions))
		decisions += t.Decisions
		admitted += t.Admitted
	}
	row.Spread = spreadOf(row.Samples)
	row.Allocs = medianOf(allocs)
	row.Admitted = float64(admitted) / float64(max(decisions, 1))
	return row
}
