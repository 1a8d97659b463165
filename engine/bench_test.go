package engine_test

import (
	"context"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A request is what callers have: of a map, the map would be what is measured.
type request struct{ ip, user, path, host, method string }

func (r *request) Get(a headgate.Attribute) (string, bool) {
	switch a.Kind {
	case headgate.AttrIP:
		return r.ip, r.ip != ""
	case headgate.AttrUser:
		return r.user, r.user != ""
	case headgate.AttrPath:
		return r.path, r.path != ""
	case headgate.AttrHost:
		return r.host, r.host != ""
	case headgate.AttrMethod:
		return r.method, r.method != ""
	}
	return "", false
}

// threeLimits are one rule with three limits, and three rules with one each. All allow, however fast they are asked.
var threeLimits = map[string][]rules.Rule{
	"one rule": {
		{ID: "search", Key: []headgate.Attribute{user}, Limits: limits("90000/9ms", "90000/10ms", "90000/11ms")},
	},
	"three rules": {
		{ID: "per-user", Key: []headgate.Attribute{user}, Limits: limits("90000/9ms")},
		{ID: "per-address", Key: []headgate.Attribute{ip}, Limits: limits("90000/10ms")},
		{ID: "all", Limits: limits("90000/11ms")},
	},
}

var aRequest = &request{ip: "203.0.113.9", user: "alice", path: "/search/cats", host: "api.example.com", method: "GET"}

func BenchmarkDecideThreeLimits(b *testing.B) {
	for name, list := range threeLimits {
		b.Run(name, func(b *testing.B) {
			e := newEngine(b, engine.Config{Store: newStore(b, memstore.Options{}), Rules: compile(b, list)})
			ctx := context.Background()
			var v engine.Verdict
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Decide(ctx, aRequest, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func checksOf(set *match.Set) []headgate.Check {
	var checks []headgate.Check
	for _, m := range set.Match(aRequest, nil) {
		for i, l := range m.Limits {
			checks = append(checks, headgate.Check{Key: string(m.AppendKey(nil, aRequest, i)), Limit: l.Limit, Cost: 1})
		}
	}
	return checks
}

func BenchmarkThreeTakes(b *testing.B) {
	for name, list := range threeLimits {
		b.Run(name, func(b *testing.B) {
			s := newStore(b, memstore.Options{})
			checks := checksOf(compile(b, list))
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				for i := range checks {
					if _, err := s.Take(ctx, checks[i]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkTakeAll(b *testing.B) {
	for name, list := range threeLimits {
		b.Run(name, func(b *testing.B) {
			s := newStore(b, memstore.Options{})
			checks := checksOf(compile(b, list))
			ctx := context.Background()
			dst := make([]headgate.Decision, 0, 3)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.TakeAll(ctx, checks, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMatch(b *testing.B) {
	for name, list := range threeLimits {
		b.Run(name, func(b *testing.B) {
			set := compile(b, list)
			var dst []match.Result
			for b.Loop() {
				dst = set.Match(aRequest, dst[:0])
			}
		})
	}
}
