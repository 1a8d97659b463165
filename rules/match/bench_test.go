package match_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/manyrules"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/rules/registry"
)

var (
	host   = headgate.Attribute{Kind: headgate.AttrHost}
	path   = headgate.Attribute{Kind: headgate.AttrPath}
	method = headgate.Attribute{Kind: headgate.AttrMethod}
	user   = headgate.Attribute{Kind: headgate.AttrUser}
	ip     = headgate.Attribute{Kind: headgate.AttrIP}
)

func header(name string) headgate.Attribute {
	return headgate.Attribute{Kind: headgate.AttrHeader, Name: name}
}

func compile(tb testing.TB, list []rules.Rule, clients ...rules.Client) *match.Set {
	tb.Helper()
	set, err := match.Compile(list, clients...)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000, 100_000} {
		for _, kind := range []struct {
			name string
			make func(n, ruleCount int) []*manyrules.Request
		}{{"one", manyrules.Typical}, {"five", manyrules.MatchingFive}} {
			b.Run(fmt.Sprintf("rules=%d/match=%s", n, kind.name), func(b *testing.B) {
				set := compile(b, manyrules.Mixed(n))
				asked := kind.make(1020, n)
				dst := make([]match.Result, 0, 16)
				matched := 0
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					dst = set.Match(asked[i%len(asked)], dst[:0])
					matched += len(dst)
				}
				b.ReportMetric(float64(matched)/float64(b.N), "matched/op")
			})
		}
	}
}

// Ten rules and ten thousand with each kind of condition.
func BenchmarkMatchKind(b *testing.B) {
	for _, kind := range manyrules.Kinds {
		for _, n := range []int{10, 10_000} {
			b.Run(fmt.Sprintf("%s/rules=%d", kind.Name, n), func(b *testing.B) {
				set := compile(b, kind.Rules(n))
				asked := kind.Requests(1020, n)
				dst := make([]match.Result, 0, 16)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					dst = set.Match(asked[i%len(asked)], dst[:0])
				}
			})
		}
	}
}

// A few rules that apply to all requests, as most services begin.
func BenchmarkMatchFew(b *testing.B) {
	set := compile(b, []rules.Rule{
		{ID: "search", When: is(path, "/search/**"), Key: []headgate.Attribute{user}, Limits: limits("10/s", "1000/h")},
		{ID: "address", Key: []headgate.Attribute{ip}, Limits: limits("100/s")},
		{ID: "all", Limits: limits("10000/s")},
	})
	r := &manyrules.Request{Host: "api.example.com", Path: "/search/cats", Method: "GET", User: "alice", IP: "192.0.2.1"}
	dst := make([]match.Result, 0, 16)
	b.ReportAllocs()
	for b.Loop() {
		dst = set.Match(r, dst[:0])
	}
}

func BenchmarkKeys(b *testing.B) {
	set := compile(b, []rules.Rule{{ID: "search-per-user", Key: []headgate.Attribute{user}, Limits: limits("10/s", "100/m", "1000/h")}})
	r := &manyrules.Request{User: "alice@example.com"}
	m := set.Match(r, nil)[0]
	buffer := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buffer = buffer[:0]
		for i := range m.Limits {
			buffer = m.AppendKey(buffer, r, i)
		}
	}
}

// One of a million registered clients.
func BenchmarkMatchRegistered(b *testing.B) {
	rule := []rules.Rule{{ID: "r", Key: []headgate.Attribute{user}, Limits: limits("10/s")}}
	clients := make([]rules.Client, 1_000_000)
	for i := range clients {
		clients[i] = rules.Client{ID: fmt.Sprint("user-", i), Limits: limits("20/s")}
	}
	registry, err := registry.New(clients...)
	if err != nil {
		b.Fatal(err)
	}
	for name, set := range map[string]*match.Set{"none": compile(b, rule), "million": compile(b, rule).WithRegistry(registry)} {
		b.Run(name, func(b *testing.B) {
			asked := make([]*manyrules.Request, 1024)
			for i := range asked {
				asked[i] = &manyrules.Request{User: fmt.Sprint("user-", i*977%1_000_000)}
			}
			dst := make([]match.Result, 0, 4)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				dst = set.Match(asked[i%len(asked)], dst[:0])
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	list := manyrules.Mixed(10_000)
	b.ReportAllocs()
	for b.Loop() {
		compile(b, list)
	}
}
