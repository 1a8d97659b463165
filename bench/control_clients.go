package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A clientsResult is what registered clients cost.
type clientsResult struct {
	Clients int
	// Heap and RSS are the bytes that they take if no two have the same limit.
	Heap, RSS int64
	Asked     []series // the first are not registered
}

// A series is how long something took that was done over and over.
type series struct {
	Name, Title string
	Took        []float64 // ns, round by round
	Allocs      float64
}

// measure adds one round of what takes so many nanoseconds each time, done so many times.
func (t *series) measure(times int, round func() (float64, error)) error {
	settle()
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

// A clientKind is a kind of identifier that clients are registered with and looked up by. Identifiers of another kind
// stand for clients that are not registered.
type clientKind struct {
	series

	limit  func(i int) headgate.Limit
	others bool
}

func clientKinds() []clientKind {
	tier := func(i int) headgate.Limit { return headgate.Per(10_000+int64(i%100), 10*time.Millisecond) }
	own := func(i int) headgate.Limit {
		return headgate.Per(10_000+int64(i%20_000), time.Duration(10+i/20_000)*time.Millisecond)
	}
	return []clientKind{
		{series{Name: "unregistered", Title: "who is not registered, where as many others are"}, own, true},
		{series{Name: "none", Title: "who is not registered, where nobody is"}, nil, false},
		{series{Name: "tiers", Title: "**registered, with one of 100 limits**"}, tier, false},
		{series{Name: "own", Title: "**registered, with a limit that no other has**"}, own, false},
	}
}

// runClients has a child measure decisions for registered clients.
func runClients(ctx context.Context, b *bench) error {
	b.progress.at(0, "clients", humanCount(b.sizes.Clients)+" of them")
	answer, err := ask[clientsResult](ctx, childFlags{
		mode: childClients, contender: "headgate", quota: "steady", keys: b.sizes.Clients, picks: b.sizes.ClientOps, at: fmt.Sprint(b.sizes.Rounds),
	})
	if err != nil {
		return err
	}
	b.results.Clients = &answer
	table := speedTable{ID: "clients", Title: "One of " + humanCount(answer.Clients) + " clients, uniform, 1 goroutine", Goroutines: 1}
	for i, a := range answer.Asked {
		row := speedRow{Contender: a.Name, Title: a.Title, Role: ours, Samples: a.Took, Spread: spreadOf(a.Took), Allocs: a.Allocs, Admitted: 1}
		if i == 0 {
			row.Role = floor
		}
		table.Rows = append(table.Rows, row)
	}
	b.results.Speed = append(b.results.Speed, table)
	return nil
}

// clientBars holds registered clients against their bars.
func clientBars(r *results) []bar {
	const most, times = 200, 1.5
	wantMemory := fmt.Sprintf("≤ %d MB", most)
	const whatMemory = "1 M registered clients on a node, no two with the same limit"
	t := r.speed("clients")
	var list []bar
	for _, with := range [][2]string{{"tiers", "who have one of 100 limits"}, {"own", "no two of whom have the same limit"}} {
		what := "a decision for one of 1 M registered clients, " + with[1]
		list = append(list,
			t.timesBar(what, fmt.Sprintf("≤ %g × one without, on the same node", times), with[0], "unregistered", times),
			t.timesBar(what, fmt.Sprintf("≤ %g × one on a node without any (to reach for)", times), with[0], "none", times))
	}
	if r.Clients == nil {
		return append(list, unmeasured(whatMemory, wantMemory))
	}
	megabytes := float64(max(r.Clients.RSS, r.Clients.Heap)) / 1e6
	return append(list, judged(whatMemory, wantMemory, fmt.Sprintf("%.0f MB", megabytes), megabytes <= most))
}

// timesBar holds the time of one row against that of another, round by round.
func (t *speedTable) timesBar(what, want, with, without string, most float64) bar {
	a, b := t.row(with), t.row(without)
	if a == nil || b == nil {
		return unmeasured(what, want)
	}
	var ratios []float64
	for i := range a.Samples {
		ratios = append(ratios, a.Samples[i]/b.Samples[i])
	}
	ratio := spreadOf(ratios)
	return judged(what, want, fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %s against %s ns)", ratio.Median, ratio.Q1, ratio.Q3,
		humanNs(a.Spread.Median), humanNs(b.Spread.Median)), ratio.Median <= most)
}

// A deciding is an engine and those who ask it.
type deciding struct {
	engine  *engine.Engine
	verdict engine.Verdict
}

// A knownUser is a request of which nothing is known but its user.
type knownUser struct{ name string }

var byUser = headgate.Attribute{Kind: headgate.AttrUser}

func (u *knownUser) Get(a headgate.Attribute) (string, bool) { return u.name, a == byUser }

// newDeciding returns an engine with one rule for all users.
func newDeciding() (*deciding, error) {
	store, err := memstore.New(memstore.Options{}) // for as long as the process lives
	if err != nil {
		return nil, err
	}
	rule := rules.Rule{ID: "per-user", Key: []headgate.Attribute{byUser}, Limits: []rules.Limit{{Limit: headgate.Per(90_000, 10*time.Millisecond)}}}
	set, err := match.Compile([]rules.Rule{rule})
	if err != nil {
		return nil, err
	}
	e, err := engine.New(engine.Config{Store: store, Rules: set})
	return &deciding{engine: e}, err
}

var errDenied = errors.New("a request was denied")

// decide decides for users one after the other and returns the nanoseconds of a decision.
func (d *deciding) decide(users []string) (float64, error) {
	ctx := context.Background()
	var user knownUser
	start := time.Now()
	for _, user.name = range users {
		if err := d.engine.Decide(ctx, &user, &d.verdict); err != nil {
			return 0, err
		}
		if !d.verdict.Action.Passes() {
			return 0, errDenied
		}
	}
	return float64(time.Since(start)) / float64(len(users)), nil
}

// measureClients is a child: it registers clients, and decides for them and for as many others in turns.
func measureClients(clients, ops, rounds int, out *json.Encoder) error {
	result := clientsResult{Clients: clients}
	var engines []*deciding
	for _, k := range clientKinds() {
		d, err := newDeciding()
		if err != nil {
			return err
		}
		settle()
		before, err := readFootprint()
		if err != nil {
			return err
		}
		if k.limit != nil {
			err = d.register(clients, &k)
		}
		if err != nil {
			return err
		}
		settle()
		after, err := readFootprint()
		if err != nil {
			return err
		}
		result.Heap, result.RSS = after.Heap-before.Heap, after.RSS-before.RSS // of the last, who have nothing in common
		result.Asked, engines = append(result.Asked, k.series), append(engines, d)
	}
	all := keyList(clients, func(i int) int { return i })
	for _, d := range engines { // the stores know all of them
		if _, err := d.decide(all); err != nil {
			return err
		}
	}
	picks := newSequence(uniform, clients, (rounds+1)*ops)
	for round := range rounds + 1 {
		users := keyList(ops, func(i int) int { return int(picks[round*ops+i]) })
		for turn := range engines {
			at := (round + turn) % len(engines)
			into := &result.Asked[at]
			if round == 0 { // it only warms
				into = &series{}
			}
			if err := into.measure(ops, func() (float64, error) { return engines[at].decide(users) }); err != nil {
				return err
			}
		}
	}
	return out.Encode(result)
}

// register registers clients, each with a limit.
func (d *deciding) register(clients int, k *clientKind) (err error) {
	i := 0
	eachKey(clients, false, func(key string) {
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
