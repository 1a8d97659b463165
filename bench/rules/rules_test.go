package rules

import (
	"testing"

	"github.com/headgate/headgate/bench/harness"
)

func TestEachMixedRequestComesUnderOneRule(t *testing.T) {
	for _, n := range []int{fewRules, manyRules} {
		const requests = 3000
		do, err := matching(n, requests)
		if err != nil {
			t.Fatal(err)
		}
		for i := range requests {
			if err := do(); err != nil {
				t.Fatalf("%d rules, request %d: %v", n, i, err)
			}
		}
	}
}

func TestTakesAndDecisionsAreOfTheSameThreeLimits(t *testing.T) {
	for _, of := range threeLimits() {
		taken, decided, err := takerAndDecider(of.list)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 * decidedUsers {
			if err := taken(); err != nil {
				t.Fatalf("%s: takes: %v", of.title, err)
			}
			if err := decided(); err != nil {
				t.Fatalf("%s: decisions: %v", of.title, err)
			}
		}
	}
}

func TestBarsOfRulesFollowTheNumbers(t *testing.T) {
	measured := func() *harness.Results {
		return &harness.Results{Rules: &harness.RulesResult{
			Match: []harness.Series{{Name: "100", Took: []float64{299}}, {Name: "10000", Took: []float64{999}}},
			Decide: []harness.Series{
				{Name: "one taken", Took: []float64{100, 200, 300}},
				{Name: "one decided", Took: []float64{149, 298, 447}},
				{Name: "three taken", Took: []float64{100}},
				{Name: "three decided", Took: []float64{149}},
			},
		}}
	}
	for _, test := range []struct {
		name   string
		change func(*harness.RulesResult)
		notMet int // which bar, from 0; -1 for none
	}{
		{"all well", func(*harness.RulesResult) {}, -1},
		{"a slow match of many", func(r *harness.RulesResult) { r.Row("10000").Took[0] = 1001 }, 0},
		{"a match that allocates", func(r *harness.RulesResult) { r.Row("10000").Allocs = 1 }, 0},
		{"a slow match of few", func(r *harness.RulesResult) { r.Row("100").Took[0] = 301 }, 1},
		{"slow decisions, round by round", func(r *harness.RulesResult) { r.Row("one decided").Took = []float64{151, 302, 447} }, 2},
		{"a decision that allocates", func(r *harness.RulesResult) { r.Row("three decided").Allocs = 0.5 }, 3},
	} {
		r := measured()
		test.change(r.Rules)
		for i, b := range rulesBars(r) {
			want := harness.Met
			if i == test.notMet {
				want = harness.NotMet
			}
			if b.Verdict != want {
				t.Errorf("%s: %s, %s: %s, want %s", test.name, b.What, b.Want, b.Verdict, want)
			}
		}
	}
	for _, b := range rulesBars(&harness.Results{}) {
		if b.Verdict != harness.NotMeasured {
			t.Errorf("nothing measured: %s: %s", b.What, b.Verdict)
		}
	}
}
