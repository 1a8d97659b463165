package rules_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

func quiet(f func()) int64 {
	var best []int64
	for range 2000 {
		c0 := time.Now()
		for range 300 {
			f()
		}
		best = append(best, int64(time.Since(c0))*10/300)
	}
	slices.Sort(best)
	return best[20]
}

func TestPieces(t *testing.T) {
	dst := make([]rules.Matched, 0, 16)
	r := requests(1024, 300)[4]
	fmt.Printf("%+v\n", r)
	is := func(a headgate.Attribute, v string) rules.Test {
		return rules.Test{Attribute: a, Values: []string{v}}
	}
	rule := func(key []headgate.Attribute, tests ...rules.Test) rules.Rule {
		return rules.Rule{Key: key, When: rules.Condition{Tests: tests}, Limits: []rules.Limit{{Limit: headgate.PerSecond(1)}}}
	}
	for _, c := range []struct {
		name  string
		rules []rules.Rule
	}{
		{"none", nil},
		{"one without key", []rules.Rule{rule(nil)}},
		{"one by user", []rules.Rule{rule([]headgate.Attribute{user})}},
		{"three by user", []rules.Rule{rule([]headgate.Attribute{user}), rule([]headgate.Attribute{user}), rule([]headgate.Attribute{user})}},
		{"one by user, path", []rules.Rule{rule([]headgate.Attribute{user}, is(path, "/shop/**"))}},
		{"one by user, path host", []rules.Rule{rule([]headgate.Attribute{user}, is(path, "/shop/**"), is(host, r.host))}},
	} {
		for i := range c.rules {
			c.rules[i].ID = fmt.Sprint("r", i)
		}
		set := compile(t, c.rules)
		fmt.Println(c.name, quiet(func() { dst = set.Match(r, dst[:0]) }), len(dst))
	}
	var s rules.Subject = r
	fmt.Println("get user", quiet(func() { s.Get(user) }))
	fmt.Println("get header", quiet(func() { s.Get(header("x-plan")) }))
}
