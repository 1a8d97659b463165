package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/manyrules"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// This file has the part "rules": the time to find the rules of a request, and to decide by them.

func rulesScenarios() []harness.Scenario {
	return []harness.Scenario{{Name: "rules", Seconds: 20, Run: runRules}}
}

// fewRules and manyRules are the numbers of rules to match.
const fewRules, manyRules = 100, 10_000

// decidedUsers is the number of users for which decisions are made.
const decidedUsers = 16

// threeLimits are ways in which three limits apply to a request. The request exceeds none of them.
func threeLimits() []struct {
	name, title string
	list        []rules.Rule
} {
	limits := func(texts ...string) (list []rules.Limit) {
		for _, text := range texts {
			list = append(list, rules.Limit{Limit: headgate.MustParseLimit(text)})
		}
		return list
	}
	return []struct {
		name, title string
		list        []rules.Rule
	}{
		{"one", "one rule with three limits", []rules.Rule{
			{ID: "search", Key: []headgate.Attribute{harness.ByUser}, Limits: limits("90000/9ms", "90000/10ms", "90000/11ms")},
		}},
		{"three", "three rules with one limit each", []rules.Rule{
			{ID: "per-user", Key: []headgate.Attribute{harness.ByUser}, Limits: limits("90000/9ms")},
			{ID: "per-address", Key: []headgate.Attribute{{Kind: headgate.AttrIP}}, Limits: limits("90000/10ms")},
			{ID: "all", Limits: limits("90000/11ms")},
		}},
	}
}

// runRules starts a child that measures both.
func runRules(ctx context.Context, b *harness.Bench) error {
	b.Progress.At(0, "rules", "matching and deciding")
	answer, err := harness.RunChildOnce[harness.RulesResult](ctx, harness.ChildFlags{
		Mode: harness.ChildRules, Contender: "headgate", Quota: "steady", Keys: b.Sizes.Requests, Picks: b.Sizes.ClientOps, At: fmt.Sprint(b.Sizes.Rounds),
	})
	if err != nil {
		return err
	}
	b.Results.Rules = &answer
	return nil
}

func rulesMethod(b *strings.Builder, r *harness.Results) {
	fmt.Fprintf(b, `- All is measured in one process, in turns, %d rounds after one that only warms, each of %s times. Tables show medians over the
  rounds and the quartiles of nanoseconds for each time.
- Of the rules to match a third are by a glob of the path, a third by host and path, a third by one header, user or API key alone.
  %s requests are asked about by turns, each of which comes under one of the rules, a third of them by each kind, and has
  values for everything that rules look at. A request finds its attributes as a server does: by a switch and a list of headers.
- A decision finds the rules, writes the keys of the counters and takes from all or none. It is held against as many bare takes, one
  after the other, whose keys were written before. Both count in a memory store of their own, for %d users by turns: so few that all is in the caches,
  and takes do not pay for fetching their keys.
`, r.Sizes.Rounds, harness.Grouped(fmt.Sprint(r.Sizes.ClientOps)), harness.Grouped(fmt.Sprint(r.Sizes.Requests)), decidedUsers)
}

// reportRules writes the tables.
func reportRules(b *strings.Builder, r *harness.Results) {
	if r.Rules == nil {
		return
	}
	table := func(title string, rows []harness.Series) {
		fmt.Fprintf(b, "\n### %s\n\n| | ns | quartiles | allocs |\n|---|--:|--:|--:|\n", title)
		for _, row := range rows {
			s := harness.SpreadOf(row.Took)
			fmt.Fprintf(b, "| %s | %s | %s–%s | %s |\n", row.Title, harness.HumanNs(s.Median), harness.HumanNs(s.Q1),
				harness.HumanNs(s.Q3), harness.HumanAllocs(row.Allocs))
		}
	}
	table("Finding the rules of a request", r.Rules.Match)
	table("Deciding by three limits", r.Rules.Decide)
}

// rulesBars compares the results with the bars.
func rulesBars(r *harness.Results) []harness.Bar {
	var list []harness.Bar
	for _, of := range []struct {
		name string
		most float64 // ns
	}{{fmt.Sprint(manyRules), 1000}, {fmt.Sprint(fewRules), 300}} {
		what, want := "match of "+harness.Grouped(of.name)+" rules", fmt.Sprintf("≤ %s ns, 0 allocations",
			harness.HumanNs(of.most))
		row := r.Rules.Row(of.name)
		if row == nil {
			list = append(list, harness.UnmeasuredBar(what, want))
			continue
		}
		s := harness.SpreadOf(row.Took)
		list = append(list, harness.JudgedBar(what, want, fmt.Sprintf("%s ns (quartiles %s–%s), %s",
			harness.HumanNs(s.Median), harness.HumanNs(s.Q1), harness.HumanNs(s.Q3), harness.HumanAllocs(row.Allocs)),
			s.Median <= of.most && row.Allocs < harness.NoAllocs))
	}
	const times = 1.5
	for _, of := range threeLimits() {
		what, want := "a decision by "+of.title, fmt.Sprintf("≤ %g × three bare takes of the same keys, 0 allocations", times)
		decided, taken := r.Rules.Row(of.name+" decided"), r.Rules.Row(of.name+" taken")
		if decided == nil || taken == nil {
			list = append(list, harness.UnmeasuredBar(what, want))
			continue
		}
		var ratios []float64
		for i := range decided.Took {
			ratios = append(ratios, decided.Took[i]/taken.Took[i])
		}
		s := harness.SpreadOf(ratios)
		list = append(list, harness.JudgedBar(what, want, fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %s against %s ns), %s",
			s.Median, s.Q1, s.Q3,
			harness.HumanNs(harness.MedianOf(decided.Took)), harness.HumanNs(harness.MedianOf(taken.Took)), harness.HumanAllocs(
				decided.Allocs)), s.Median <= times && decided.Allocs < harness.NoAllocs))
	}
	return list
}

// A turn is a measurement that takes turns with others.
type turn struct {
	into *harness.Series
	do   func() error // once
}

// MeasureRules runs in a child process.
func MeasureRules(requests, ops, rounds int, out *json.Encoder) error {
	result := harness.RulesResult{
		Requests: requests, Match: make([]harness.Series, 2),
		Decide: make([]harness.Series, 2*len(threeLimits())),
	}
	var turns []turn
	for i, n := range []int{fewRules, manyRules} {
		do, err := matching(n, requests)
		if err != nil {
			return err
		}
		result.Match[i] = harness.Series{Name: fmt.Sprint(n), Title: harness.Grouped(fmt.Sprint(n)) + " rules"}
		turns = append(turns, turn{&result.Match[i], do})
	}
	for i, of := range threeLimits() {
		taken, decided, err := takerAndDecider(of.list)
		if err != nil {
			return err
		}
		result.Decide[2*i] = harness.Series{Name: of.name + " taken", Title: of.title + ": three bare takes"}
		result.Decide[2*i+1] = harness.Series{Name: of.name + " decided", Title: of.title + ": **a decision**"}
		turns = append(turns, turn{&result.Decide[2*i], taken}, turn{&result.Decide[2*i+1], decided})
	}
	for round := range rounds + 1 {
		for at := range turns {
			t := turns[(round+at)%len(turns)]
			if round == 0 { // it only warms
				t.into = &harness.Series{}
			}
			if err := t.into.Measure(ops, func() (float64, error) { return repeated(ops, t.do) }); err != nil {
				return err
			}
		}
	}
	return out.Encode(result)
}

// repeated calls a function the given number of times, and returns the nanoseconds per call.
func repeated(times int, do func() error) (float64, error) {
	start := time.Now()
	for range times {
		if err := do(); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(start)) / float64(times), nil
}

var errMatch = errors.New("a request does not come under one rule")

// matching returns a function that matches the next request against the given number of rules.
func matching(n, requests int) (func() error, error) {
	set, err := match.Compile(manyrules.Mixed(n))
	if err != nil {
		return nil, err
	}
	asked := manyrules.Typical(requests, n)
	matched, next := make([]match.Result, 0, 16), 0
	return func() error {
		matched = set.Match(asked[next], matched[:0])
		if next++; next == len(asked) {
			next = 0
		}
		if len(matched) != 1 {
			return errMatch
		}
		return nil
	}, nil
}

// takerAndDecider returns two functions: one takes from the three limits of the next user one after the other, and the
// other makes the same decision with the engine.
func takerAndDecider(list []rules.Rule) (taken, decided func() error, err error) {
	set, err := match.Compile(list)
	if err != nil {
		return nil, nil, err
	}
	var stores [2]*memstore.Store
	for i := range stores {
		if stores[i], err = memstore.New(memstore.Options{}); err != nil { // for as long as the process lives
			return nil, nil, err
		}
	}
	e, err := engine.New(engine.Config{Store: stores[1], Rules: set})
	if err != nil {
		return nil, nil, err
	}
	names := harness.KeyList(decidedUsers, func(i int) int { return i })
	var asked [decidedUsers]manyrules.Request
	var checks [decidedUsers][]headgate.Check
	for i := range asked {
		asked[i] = manyrules.Request{User: names[i], IP: "203.0.113.9", Path: "/search/cats", Host: "api.example.com"}
		for _, m := range set.Match(&asked[i], nil) {
			for at, l := range m.Limits {
				checks[i] = append(checks[i], headgate.Check{Key: string(m.AppendKey(nil, &asked[i], at)), Limit: l.Limit, Cost: 1})
			}
		}
	}
	ctx := context.Background()
	var takes, decides int
	taken = func() error {
		for i := range checks[takes] {
			if d, err := stores[0].Take(ctx, checks[takes][i]); err != nil || !d.Allowed {
				return errors.Join(harness.ErrDenied, err)
			}
		}
		takes = (takes + 1) % decidedUsers
		return nil
	}
	var v engine.Verdict
	decided = func() error {
		if err := e.Decide(ctx, &asked[decides], &v); err != nil || !v.Action.Passes() || v.LimitCount() != 3 {
			return errors.Join(harness.ErrDenied, err)
		}
		decides = (decides + 1) % decidedUsers
		return nil
	}
	return taken, decided, nil
}
