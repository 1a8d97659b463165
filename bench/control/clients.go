package control

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A clientKind is a kind of identifier by which clients are registered. Identifiers of another kind belong to clients
// that are not registered.
type clientKind struct {
	harness.Series

	limit  func(i int) headgate.Limit
	others bool
}

func clientKinds() []clientKind {
	tier := func(i int) headgate.Limit { return headgate.Per(10_000+int64(i%100), 10*time.Millisecond) }
	own := func(i int) headgate.Limit {
		return headgate.Per(10_000+int64(i%20_000), time.Duration(10+i/20_000)*time.Millisecond)
	}
	return []clientKind{
		{harness.Series{Name: "unregistered", Title: "who is not registered, where as many others are"}, own, true},
		{harness.Series{Name: "none", Title: "who is not registered, where nobody is"}, nil, false},
		{harness.Series{Name: "tiers", Title: "**registered, with one of 100 limits**"}, tier, false},
		{harness.Series{Name: "own", Title: "**registered, with a limit that no other has**"}, own, false},
	}
}

// runClients starts a child that measures decisions for registered clients.
func runClients(ctx context.Context, b *harness.Bench) error {
	b.Progress.At(0, "clients", harness.HumanCount(b.Sizes.Clients)+" of them")
	answer, err := harness.RunChildOnce[harness.ClientsResult](ctx, harness.ChildFlags{
		Mode: harness.ChildClients, Contender: "headgate", Quota: "steady", Keys: b.Sizes.Clients, Picks: b.Sizes.ClientOps, At: fmt.Sprint(b.Sizes.Rounds),
	})
	if err != nil {
		return err
	}
	b.Results.Clients = &answer
	table := harness.SpeedTable{ID: "clients", Title: "One of " + harness.HumanCount(answer.Clients) +
		" clients, uniform, 1 goroutine", Goroutines: 1}
	for i, a := range answer.Asked {
		row := harness.SpeedRow{
			Contender: a.Name, Title: a.Title, Role: harness.Ours, Samples: a.Took,
			Spread: harness.SpreadOf(a.Took), Allocs: a.Allocs, Admitted: 1,
		}
		if i == 0 {
			row.Role = harness.Floor
		}
		table.Rows = append(table.Rows, row)
	}
	b.Results.Speed = append(b.Results.Speed, table)
	return nil
}

// clientBars compares the results for registered clients with their bars.
func clientBars(r *harness.Results) []harness.Bar {
	const most, times = 200, 1.5
	wantMemory := fmt.Sprintf("≤ %d MB", most)
	const whatMemory = "1 M registered clients on a node, no two with the same limit"
	t := r.SpeedNamed("clients")
	var list []harness.Bar
	for _, with := range [][2]string{
		{"tiers", "who have one of 100 limits"},
		{"own", "no two of whom have the same limit"},
	} {
		what := "a decision for one of 1 M registered clients, " + with[1]
		list = append(list,
			timesBar(t, what, fmt.Sprintf("≤ %g × one without, on the same node", times), with[0], "unregistered", times),
			timesBar(t, what, fmt.Sprintf("≤ %g × one on a node without any (to reach for)", times), with[0], "none", times))
	}
	if r.Clients == nil {
		return append(list, harness.UnmeasuredBar(whatMemory, wantMemory))
	}
	megabytes := float64(max(r.Clients.RSS, r.Clients.Heap)) / 1e6
	return append(list, harness.JudgedBar(whatMemory, wantMemory, fmt.Sprintf("%.0f MB", megabytes), megabytes <= most))
}

// timesBar compares the time of one row with that of another, round by round.
func timesBar(t *harness.SpeedTable, what, want, with, without string, most float64) harness.Bar {
	a, b := t.Row(with), t.Row(without)
	if a == nil || b == nil {
		return harness.UnmeasuredBar(what, want)
	}
	var ratios []float64
	for i := range a.Samples {
		ratios = append(ratios, a.Samples[i]/b.Samples[i])
	}
	ratio := harness.SpreadOf(ratios)
	return harness.JudgedBar(what, want, fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %s against %s ns)", ratio.Median,
		ratio.Q1, ratio.Q3,
		harness.HumanNs(a.Spread.Median), harness.HumanNs(b.Spread.Median)), ratio.Median <= most)
}

// A deciding is an engine and its clients.
type deciding struct {
	engine  *engine.Engine
	verdict engine.Verdict
}

// A knownUser is a request that has only a user.
type knownUser struct{ name string }

func (u *knownUser) Get(a headgate.Attribute) (string, bool) { return u.name, a == harness.ByUser }

// newDeciding returns an engine with one rule for all users.
func newDeciding() (*deciding, error) {
	store, err := memstore.New(memstore.Options{}) // for as long as the process lives
	if err != nil {
		return nil, err
	}
	rule := rules.Rule{
		ID: "per-user", Key: []headgate.Attribute{harness.ByUser},
		Limits: []rules.Limit{{Limit: headgate.Per(90_000, 10*time.Millisecond)}},
	}
	set, err := match.Compile([]rules.Rule{rule})
	if err != nil {
		return nil, err
	}
	e, err := engine.New(engine.Config{Store: store, Rules: set})
	return &deciding{engine: e}, err
}

// decide makes decisions for the users one after the other, and returns the nanoseconds per decision.
func (d *deciding) decide(users []string) (float64, error) {
	ctx := context.Background()
	var user knownUser
	start := time.Now()
	for _, user.name = range users {
		if err := d.engine.Decide(ctx, &user, &d.verdict); err != nil {
			return 0, err
		}
		if !d.verdict.Action.Passes() {
			return 0, harness.ErrDenied
		}
	}
	return float64(time.Since(start)) / float64(len(users)), nil
}

// MeasureClients runs in a child process. It registers clients, and takes turns deciding for them and for the same
// number of unregistered clients.
func MeasureClients(clients, ops, rounds int, out *json.Encoder) error {
	result := harness.ClientsResult{Clients: clients}
	var engines []*deciding
	for _, k := range clientKinds() {
		d, err := newDeciding()
		if err != nil {
			return err
		}
		harness.FreeMemory()
		before, err := harness.ReadFootprint()
		if err != nil {
			return err
		}
		if k.limit != nil {
			err = d.register(clients, &k)
		}
		if err != nil {
			return err
		}
		harness.FreeMemory()
		after, err := harness.ReadFootprint()
		if err != nil {
			return err
		}
		result.Heap, result.RSS = after.Heap-before.Heap, after.RSS-before.RSS // of the last, who have nothing in common
		result.Asked, engines = append(result.Asked, k.Series), append(engines, d)
	}
	all := harness.KeyList(clients, func(i int) int { return i })
	for _, d := range engines { // the stores know all of them
		if _, err := d.decide(all); err != nil {
			return err
		}
	}
	picks := harness.NewSequence(harness.Uniform, clients, (rounds+1)*ops)
	for round := range rounds + 1 {
		users := harness.KeyList(ops, func(i int) int { return int(picks[round*ops+i]) })
		for turn := range engines {
			at := (round + turn) % len(engines)
			into := &result.Asked[at]
			if round == 0 { // it only warms
				into = &harness.Series{}
			}
			if err := into.Measure(ops, func() (float64, error) { return engines[at].decide(users) }); err != nil {
				return err
			}
		}
	}
	return out.Encode(result)
}

// register registers clients, each with a limit.
func (d *deciding) register(clients int, k *clientKind) (err error) {
	i := 0
	harness.EachKey(clients, false, func(key string) {
		if k.others {
			key = "another-" + key
		}
		if err == nil {
			err = d.engine.AddClient(rules.Client{ID: key, Limits: []rules.Limit{{Limit: k.limit(i)}}})
		}
		i++
	})
	return err
}
