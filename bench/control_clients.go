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
)

// A clientsResult is what registered clients cost.
type clientsResult struct {
	Clients   int
	Heap, RSS int64 // bytes that they take
	// Without and With are nanoseconds of a decision for who is not registered, and for who is, round by round.
	Without, With []float64
	Allocs        float64 // of a decision for who is
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
	table.Rows = []speedRow{
		{Contender: "unregistered", Title: "who is not registered", Role: floor, Samples: answer.Without, Spread: spreadOf(answer.Without), Admitted: 1},
		{Contender: "registered", Title: "**registered, with a limit of its own**", Role: ours, Samples: answer.With, Spread: spreadOf(answer.With), Allocs: answer.Allocs, Admitted: 1},
	}
	b.results.Speed = append(b.results.Speed, table)
	return nil
}

// clientBars holds registered clients against their bars.
func clientBars(r *results) []bar {
	const most, times = 200, 1.5
	what := "a decision for one of 1 M registered clients"
	wantTime, wantMemory := fmt.Sprintf("≤ %g × one without", times), fmt.Sprintf("≤ %d MB", most)
	const whatMemory = "1 M registered clients on a node"
	t := r.speed("clients")
	with, without := t.row("registered"), t.row("unregistered")
	if with == nil || without == nil || r.Clients == nil {
		return []bar{unmeasured(what, wantTime), unmeasured(whatMemory, wantMemory)}
	}
	var ratios []float64
	for i := range with.Samples {
		ratios = append(ratios, with.Samples[i]/without.Samples[i])
	}
	ratio := spreadOf(ratios)
	megabytes := float64(max(r.Clients.RSS, r.Clients.Heap)) / 1e6
	return []bar{
		judged(what, wantTime, fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %s against %s ns)", ratio.Median, ratio.Q1, ratio.Q3,
			humanNs(with.Spread.Median), humanNs(without.Spread.Median)), ratio.Median <= times),
		judged(whatMemory, wantMemory, fmt.Sprintf("%.0f MB", megabytes), megabytes <= most),
	}
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
	set, err := rules.Compile([]rules.Rule{rule})
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
	without, err := newDeciding()
	if err != nil {
		return err
	}
	with, err := newDeciding()
	if err != nil {
		return err
	}
	settle()
	before, err := readFootprint()
	if err != nil {
		return err
	}
	i := 0
	eachKey(clients, false, func(key string) {
		limit := headgate.Per(10_000+int64(i%20_000), time.Duration(10+i/20_000)*time.Millisecond) // no two are the same
		i++
		if err == nil {
			err = with.engine.AddClient(rules.Client{ID: key, Limits: []rules.Limit{{Limit: limit}}})
		}
	})
	if err != nil {
		return err
	}
	settle()
	after, err := readFootprint()
	if err != nil {
		return err
	}
	result.Heap, result.RSS = after.Heap-before.Heap, after.RSS-before.RSS
	all := keyList(clients, func(i int) int { return i })
	for _, d := range []*deciding{without, with} { // the stores know all of them
		if _, err := d.decide(all); err != nil {
			return err
		}
	}
	picks := newSequence(uniform, clients, (rounds+1)*ops)
	for round := range rounds + 1 {
		users := keyList(ops, func(i int) int { return int(picks[round*ops+i]) })
		for turn := range 2 {
			settle()
			d, into := without, &result.Without
			if (round+turn)%2 == 0 {
				d, into = with, &result.With
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			took, err := d.decide(users)
			if err != nil {
				return err
			}
			runtime.ReadMemStats(&after)
			if round == 0 { // which only warms
				continue
			}
			*into = append(*into, took)
			if d == with {
				result.Allocs = max(result.Allocs, float64(after.Mallocs-before.Mallocs)/float64(ops))
			}
		}
	}
	return out.Encode(result)
}
