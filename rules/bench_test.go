package rules_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
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

// mixed returns n rules: a third by a glob of the path, a third by host and path, a third by one header or attribute.
func mixed(n int) []rules.Rule {
	list := make([]rules.Rule, n)
	for i := range list {
		r := &list[i]
		r.ID = fmt.Sprint("rule-", i)
		r.Key = []headgate.Attribute{user}
		r.Limits = []rules.Limit{{Limit: headgate.PerSecond(10)}}
		is := func(a headgate.Attribute, value string) {
			r.When.Tests = append(r.When.Tests, rules.Test{Attribute: a, Values: []string{value}})
		}
		switch k := i / 3; i % 3 {
		case 0:
			switch k % 4 {
			case 0:
				is(path, fmt.Sprintf("/api/v1/service-%d/**", k))
			case 1:
				is(path, fmt.Sprintf("/api/*/service-%d/*", k))
			case 2:
				is(path, fmt.Sprintf("/files/%d/*.json", k))
			default:
				is(path, fmt.Sprintf("/**/export-%d", k))
			}
		case 1:
			if k%5 == 0 {
				is(host, fmt.Sprintf("*.tenant-%d.example.com", k%100))
			} else {
				is(host, fmt.Sprintf("host-%d.example.com", k%100))
			}
			is(path, fmt.Sprintf("/shop/items-%d/**", k))
		default:
			switch k % 4 {
			case 0:
				is(header("x-tenant"), fmt.Sprint("tenant-", k))
			case 1:
				is(header("x-plan"), fmt.Sprint("plan-", k))
			case 2:
				is(user, fmt.Sprint("user-", k))
			default:
				is(headgate.Attribute{Kind: headgate.AttrAPIKey}, fmt.Sprint("key-", k))
			}
		}
	}
	return list
}

// request is a Subject much like the one that a gateway has: a few fields and a list of headers.
type request struct {
	host, path, method, user, apiKey, ip string
	headers                              [][2]string
}

func (r *request) Get(a headgate.Attribute) (string, bool) {
	var value string
	switch a.Kind {
	case headgate.AttrHost:
		value = r.host
	case headgate.AttrPath:
		value = r.path
	case headgate.AttrMethod:
		value = r.method
	case headgate.AttrUser:
		value = r.user
	case headgate.AttrAPIKey:
		value = r.apiKey
	case headgate.AttrIP:
		value = r.ip
	case headgate.AttrHeader:
		for i := range r.headers {
			if r.headers[i][0] == a.Name {
				return r.headers[i][1], true
			}
		}
	}
	return value, value != ""
}

// typical returns n requests, each of which matches one of the mixed rules, a third of them by each of their kinds, and
// carries other values for everything else that rules look at.
func typical(n, ruleCount int) []*request {
	list := requests(n, ruleCount)
	for i, r := range list {
		full := *r
		r.user, r.apiKey = fmt.Sprint("someone-", i), fmt.Sprint("other-", i)
		r.headers = [][2]string{full.headers[0], full.headers[1], full.headers[2], {"x-tenant", "nobody"}, {"x-plan", "free"}}
		switch i % 3 {
		case 0: // by a glob of the path: i%5 says which
			if i%5 == 4 {
				r.path = list[i-1].path
			}
		case 1: // by host and path
			k := i * 7919 % (ruleCount / 3)
			r.path = fmt.Sprintf("/shop/items-%d/reviews/7", k)
		default: // by one attribute
			r.path = fmt.Sprintf("/nothing/here/%d", i)
			switch i / 3 % 4 {
			case 0:
				r.user = full.user
			case 1:
				r.apiKey = full.apiKey
			case 2:
				r.headers[3] = full.headers[3]
			default:
				r.headers[4] = full.headers[4]
			}
		}
	}
	return list
}

// requests returns n requests, each of which matches four of the mixed rules by its attributes and one by its path.
func requests(n, ruleCount int) []*request {
	list := make([]*request, n)
	for i := range list {
		k := i * 7919 % (ruleCount / 3)
		r := &request{
			method: "GET", user: fmt.Sprint("user-", k-k%4+2), apiKey: fmt.Sprint("key-", k-k%4+3), ip: "192.0.2.17",
			headers: [][2]string{
				{"accept", "*/*"},
				{"user-agent", "curl/8.5.0"},
				{"x-request-id", "0123456789abcdef"},
				{"x-tenant", fmt.Sprint("tenant-", k-k%4)},
				{"x-plan", fmt.Sprint("plan-", k-k%4+1)},
			},
		}
		r.host = fmt.Sprintf("host-%d.example.com", k%100)
		if k%5 == 0 {
			r.host = fmt.Sprintf("www.tenant-%d.example.com", k%100)
		}
		switch i % 5 {
		case 0:
			r.path = fmt.Sprintf("/api/v1/service-%d/users/42", k-k%4)
		case 1:
			r.path = fmt.Sprintf("/api/v2/service-%d/42", k-k%4+1)
		case 2:
			r.path = fmt.Sprintf("/files/%d/report.json", k-k%4+2)
		case 3:
			r.path = fmt.Sprintf("/a/b/export-%d", k-k%4+3)
		default:
			r.path = fmt.Sprintf("/shop/items-%d/reviews/7", k)
		}
		list[i] = r
	}
	return list
}

func compile(tb testing.TB, list []rules.Rule, clients ...rules.Client) *rules.Set {
	tb.Helper()
	set, err := rules.Compile(list, clients...)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000, 100_000} {
		for _, kind := range []struct {
			name string
			make func(n, ruleCount int) []*request
		}{{"one", typical}, {"five", requests}} {
			b.Run(fmt.Sprintf("rules=%d/match=%s", n, kind.name), func(b *testing.B) {
				set := compile(b, mixed(n))
				asked := kind.make(1020, n)
				dst := make([]rules.Matched, 0, 16)
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

// A few rules for everybody, as most services begin.
func BenchmarkMatchFew(b *testing.B) {
	set := compile(b, []rules.Rule{
		{ID: "search", When: is(path, "/search/**"), Key: []headgate.Attribute{user}, Limits: limits("10/s", "1000/h")},
		{ID: "address", Key: []headgate.Attribute{ip}, Limits: limits("100/s")},
		{ID: "all", Limits: limits("10000/s")},
	})
	r := &request{host: "api.example.com", path: "/search/cats", method: "GET", user: "alice", ip: "192.0.2.1"}
	dst := make([]rules.Matched, 0, 16)
	b.ReportAllocs()
	for b.Loop() {
		dst = set.Match(r, dst[:0])
	}
}

func BenchmarkKeys(b *testing.B) {
	set := compile(b, []rules.Rule{{ID: "search-per-user", Key: []headgate.Attribute{user}, Limits: limits("10/s", "100/m", "1000/h")}})
	r := &request{user: "alice@example.com"}
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
	registry, err := rules.NewRegistry(clients...)
	if err != nil {
		b.Fatal(err)
	}
	for name, set := range map[string]*rules.Set{"none": compile(b, rule), "million": compile(b, rule).WithRegistry(registry)} {
		b.Run(name, func(b *testing.B) {
			asked := make([]*request, 1024)
			for i := range asked {
				asked[i] = &request{user: fmt.Sprint("user-", i*977%1_000_000)}
			}
			dst := make([]rules.Matched, 0, 4)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				dst = set.Match(asked[i%len(asked)], dst[:0])
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	list := mixed(10_000)
	b.ReportAllocs()
	for b.Loop() {
		compile(b, list)
	}
}
