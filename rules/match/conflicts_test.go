package match_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/rules/registry"
)

// conflicts returns the result of Conflicts, a line for each: the number of clients, their limits, and the problems' paths.
func conflicts(set *match.Set, in *registry.Registry, before *match.Set) []string {
	list, more := set.Conflicts(in, before)
	var lines []string
	for _, m := range list {
		line := fmt.Sprint(m.Count)
		for _, l := range m.Example.Limits {
			line += " " + l.String()
		}
		for _, r := range m.Example.Rules {
			line += " " + r.ID
		}
		for _, p := range m.Problems {
			line += " " + p.Path
		}
		lines = append(lines, line)
	}
	if more > 0 {
		lines = append(lines, fmt.Sprint(more, " more"))
	}
	slices.Sort(lines)
	return lines
}

func TestConflictsAreLimitsThatRulesCannotUse(t *testing.T) {
	t.Parallel()
	r, err := registry.New(
		rules.Client{ID: "a", Limits: limits("3/s")}, rules.Client{ID: "b", Limits: limits("3/s")},
		rules.Client{ID: "c", Limits: limits("4/s")}, rules.Client{ID: "enough", Limits: limits("5/s")},
		rules.Client{ID: "bursts", Limits: limits("1/s burst 9")},
		rules.Client{ID: "several", Limits: limits("9/s", "2/h")},
		rules.Client{ID: "free", Unlimited: true}, rules.Client{ID: "blocked", Block: true}, rules.Client{ID: "nothing"},
		// This client has four values, and counts once.
		rules.Client{ID: "keys", Attributes: append(named(user, "keys", "k2"), named(apiKeyAttribute, "k3", "k4")...), Limits: limits("1/s")},
		// No rule counts by this client's attribute.
		rules.Client{ID: "other", Attributes: named(apiKeyAttribute, "o"), Limits: limits("1/s")},
		rules.Client{ID: "named", Rules: []rules.ClientRule{{ID: "costly", Limits: limits("2/s")}, {ID: "gone", Limits: limits("2/s")}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	rule := func(id string, cost int64, key ...headgate.Attribute) rules.Rule {
		return rules.Rule{ID: id, Key: key, Fallback: rules.FallbackSkip, Limits: limits("100/s"), Cost: rules.Cost{Units: cost}}
	}
	costly := compile(t, []rules.Rule{rule("costly", 5, user)})
	inRules := "1 costly gone rules[0].limits[0] rules[1].id"
	for _, tt := range []struct {
		name        string
		set, before *match.Set
		want        []string
	}{
		{"all of them", costly, nil, []string{
			"1 1/s limits[0]", "1 4/s limits[0]", "1 9/s 2/h limits[1]", inRules, "2 3/s limits[0]",
		}},
		{"what is asked was asked before", compile(t, []rules.Rule{rule("costly", 5, user), rule("another", 5, user)}), costly, []string{inRules}},
		{"it was asked of others", compile(t, []rules.Rule{rule("costly", 5, user), rule("another", 5, apiKeyAttribute)}), costly, []string{
			inRules, "2 1/s limits[0]",
		}},
		{"more is asked", compile(t, []rules.Rule{rule("costly", 4, user)}), compile(t, []rules.Rule{rule("costly", 1, user)}), []string{
			"1 1/s limits[0]", "1 9/s 2/h limits[1]", inRules, "2 3/s limits[0]",
		}},
		{"nothing is asked", compile(t, nil), costly, []string{"1 costly gone rules[0].id rules[1].id"}},
	} {
		slices.Sort(tt.want)
		if got := conflicts(tt.set, r, tt.before); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}

// Conflicts returns the clients that Check refuses.
func TestConflictsAgreeWithCheck(t *testing.T) {
	t.Parallel()
	sets := []*match.Set{
		compile(t, []rules.Rule{{ID: "r", Key: []headgate.Attribute{user}, Limits: limits("500/s"), Cost: rules.Cost{Units: 40}}}),
		compile(t, []rules.Rule{{ID: "r", Key: []headgate.Attribute{user}, Limits: limits("500/s"), Split: 8}}),
		compile(t, []rules.Rule{{ID: "r", Key: []headgate.Attribute{user}, Limits: limits("500/s"), Consistency: rules.Lease}}),
		compile(t, []rules.Rule{{ID: "r", Key: []headgate.Attribute{user}, Limits: limits("500/s"), OnLimit: rules.OnLimit{Action: rules.Delay, MaxWait: 1e9}}}),
	}
	r, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	var clients []rules.Client
	for i := range 600 {
		form := []string{"%d/s", "%d/h burst 7", "%d/m sliding-window", "%d/s gcra", "%d concurrent"}[i%5]
		c := rules.Client{ID: fmt.Sprint("c", i), Limits: limits(fmt.Sprintf(form, i/10+1))}
		if err := r.Add(c); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	for i, set := range sets {
		want := 0
		for _, c := range clients {
			if err := set.Check(c); errors.Is(err, rules.ErrInvalid) {
				want++
			}
		}
		list, got := set.Conflicts(r, nil)
		for _, m := range list {
			got += m.Count
		}
		if got != want || want == 0 {
			t.Errorf("rules %d: got %d conflicts, want %d, and some", i, got, want)
		}
	}
}

func BenchmarkConflictsOfAMillion(b *testing.B) {
	r, err := registry.New()
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1_000_000 {
		if err := r.Add(rules.Client{ID: fmt.Sprint("c", i), Limits: []rules.Limit{{Limit: headgate.PerSecond(int64(i) + 1)}}}); err != nil {
			b.Fatal(err)
		}
	}
	rule := rules.Rule{ID: "a", Key: []headgate.Attribute{user}, Limits: limits("100/s")}
	before := compile(b, []rules.Rule{rule})
	more := rule
	more.ID = "b"
	other := more
	other.Split, other.Limits = 2, limits("100/s")
	for name, list := range map[string][]rules.Rule{"NothingNew": {rule, more}, "SomethingNew": {rule, other}} {
		set := compile(b, list)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				set.Conflicts(r, before)
			}
		})
	}
}
