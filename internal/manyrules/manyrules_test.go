package manyrules

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/rules/match"
)

func TestRequestsComeUnderAsManyRulesAsIsSaid(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, 1000, 10_000} {
		set, err := match.Compile(Mixed(n))
		if err != nil {
			t.Fatal(err)
		}
		for name, kind := range map[string]struct {
			asked []*Request
			want  int
		}{"typical": {Typical(1000, n), 1}, "matching five": {MatchingFive(1000, n), 5}} {
			for i, r := range kind.asked {
				if got := len(set.Match(r, nil)); got != kind.want {
					t.Fatalf("%d rules, %s request %d: it comes under %d rules, want %d: %+v", n, name, i, got, kind.want, *r)
				}
			}
		}
	}
}

func TestRequestsOfAKindMatchOneRule(t *testing.T) {
	t.Parallel()
	const n = 1000
	for _, k := range Kinds {
		set, err := match.Compile(k.Rules(n))
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range k.Requests(n, n) {
			want := fmt.Sprint("rule-", i*7919%n)
			if got := set.Match(r, nil); len(got) != 1 || got[0].Rule.ID != want {
				t.Fatalf("%s: request %d matches %v, want %s alone", k.Name, i, got, want)
			}
		}
	}
}
