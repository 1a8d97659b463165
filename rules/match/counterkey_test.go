package match_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

func keysOf(m *match.Result, s rules.Subject) []string {
	var keys []string
	for i := range m.Limits {
		keys = append(keys, string(m.AppendKey(nil, s, i)))
	}
	return keys
}

func TestKeys(t *testing.T) {
	apiKey := headgate.Attribute{Kind: headgate.AttrAPIKey}
	query := headgate.Attribute{Kind: headgate.AttrQuery, Name: "a+b/c"}
	request := rules.Attributes{user: "alice", ip: "192.0.2.1", path: "/a", apiKey: "k", header("x-tenant"): "acme", query: "q"}
	for _, tt := range []struct {
		rule   rules.Rule
		keys   []string
		owner  string
		shared bool
	}{
		{rules.Rule{Limits: limits("1/s")}, []string{"/r//1"}, "/r/", true},
		{rules.Rule{Namespace: "shop", Limits: limits("1/s")}, []string{"shop/r//1"}, "shop/r/", true},
		{rules.Rule{Key: []headgate.Attribute{user}, Limits: limits("1/s", "5/m")}, []string{"/r/user/\x05alice1", "/r/user/\x05alice2"}, "user=\x05alice", false},
		{rules.Rule{Key: []headgate.Attribute{path, user}, Limits: limits("1/s")}, []string{"/r/path+user/\x02/a\x05alice1"}, "user=\x05alice", false},
		{rules.Rule{Key: []headgate.Attribute{ip, user}, Limits: limits("1/s")}, []string{"/r/ip+user/\x09192.0.2.1\x05alice1"}, "user=\x05alice", false},
		{rules.Rule{Key: []headgate.Attribute{apiKey}, Limits: limits("1/s")}, []string{"/r/api_key/\x01k1"}, "api_key=\x01k", false},
		{rules.Rule{Key: []headgate.Attribute{header("x-tenant")}, Limits: limits("1/s")}, []string{"/r/header.x-tenant/\x04acme1"}, "header.x-tenant=\x04acme", true},
		{rules.Rule{Key: []headgate.Attribute{header("x-tenant")}, Owner: rules.OwnerClient, Limits: limits("1/s")}, []string{"/r/header.x-tenant/\x04acme1"}, "header.x-tenant=\x04acme", false},
		{rules.Rule{Key: []headgate.Attribute{user}, Owner: rules.OwnerShared, Limits: limits("1/s")}, []string{"/r/user/\x05alice1"}, "user=\x05alice", true},
		{rules.Rule{Key: []headgate.Attribute{query}, Limits: limits("1/s")}, []string{"/r/\"query.a+b/c\"/\x01q1"}, "query.a+b/c=\x01q", true},
		{rules.Rule{Limits: []rules.Limit{{Name: "hourly", Limit: headgate.PerHour(1)}}}, []string{"/r//hourly"}, "/r/", true},
	} {
		tt.rule.ID = "r"
		set := compile(t, []rules.Rule{tt.rule})
		m := set.Match(request, nil)[0]
		if got := keysOf(&m, request); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tt.keys) {
			t.Errorf("%v: got keys %q, want %q", tt.rule.Key, got, tt.keys)
		}
		if got := string(m.AppendOwner(nil, request)); got != tt.owner || m.Shared != tt.shared {
			t.Errorf("%v: got owner %q, shared %v, want %q, %v", tt.rule.Key, got, m.Shared, tt.owner, tt.shared)
		}
	}
}

// Values whose concatenations are equal do not share a counter.
func TestKeysAreUnambiguous(t *testing.T) {
	a, b := header("x-a"), header("x-b")
	set := compile(t, []rules.Rule{
		{ID: "two", Key: []headgate.Attribute{a, b}, Limits: limits("1/s", "5/m")},
		{ID: "one", Key: []headgate.Attribute{a}, Limits: limits("1/s")},
	})
	long := strings.Repeat("x", 256)
	values := []string{
		"a", "b", "ab", "a1", "1", "/", "+", "\x00", "\x01", "\x01a", "a\x01", "a\x01b", "\x01b1", "a/b", "=", "é",
		long, long + "x", long + "y", long[1:], "\x00" + long, strings.Repeat("\x01a", 200),
	}
	seen := map[string]string{}
	for _, va := range values {
		for _, vb := range values {
			request := rules.Attributes{a: va, b: vb}
			for _, m := range set.Match(request, nil) {
				for i := range m.Limits {
					who := fmt.Sprintf("%s %d %q", m.Rule.ID, i, va)
					if m.Rule.ID == "two" {
						who += fmt.Sprintf(" %q", vb)
					}
					key := string(m.AppendKey(nil, request, i))
					if err := headgate.ValidateKey(key); err != nil {
						t.Fatalf("%s: %v", who, err)
					}
					if other, ok := seen[key]; ok && other != who {
						t.Fatalf("%s and %s have the same key %q", who, other, key)
					}
					seen[key] = who
				}
			}
		}
	}
}

func TestLongestKeyIsValid(t *testing.T) {
	rule := rules.Rule{ID: strings.Repeat("r", rules.MaxName), Namespace: strings.Repeat("n", rules.MaxName)}
	request := rules.Attributes{}
	for i := range rules.MaxKey {
		a := headgate.Attribute{Kind: headgate.AttrDescriptor, Name: strings.Repeat(string(rune('a'+i)), headgate.MaxAttributeName)}
		rule.Key = append(rule.Key, a)
		request[a] = strings.Repeat("v", 256+i%2)
	}
	rule.Limits = []rules.Limit{{Name: "l" + strings.Repeat("l", rules.MaxLimitName-1), Limit: headgate.PerSecond(1)}}
	m := compile(t, []rules.Rule{rule}).Match(request, nil)[0]
	if err := headgate.ValidateKey(string(m.AppendKey(nil, request, 0))); err != nil {
		t.Error(err)
	}
}

// A raised limit takes effect at once because it keeps its counter. Limits of another kind have counters of their own.
func TestReplacedLimitsKeepTheirCounters(t *testing.T) {
	rule := rules.Rule{
		ID: "r", Key: []headgate.Attribute{user},
		Limits: append(limits("10/s", "1000/h", "20/s"), rules.Limit{Name: "daily", Limit: headgate.MustParseLimit("10000/d fixed-window")}),
		Overrides: []rules.Override{
			{When: is(user, "a"), Limits: limits("5000/h", "100/s", "90/s", "80/s")},
			{When: is(user, "b"), Limits: limits("50000/d fixed-window", "500/d", "50/h sliding-window", "5 concurrent")},
			{When: is(user, "c"), Limits: append(limits("1/d fixed-window"), rules.Limit{Name: "daily", Limit: headgate.PerSecond(5)})},
		},
	}
	var clients []rules.Client
	for i, o := range rule.Overrides { // the same for clients
		clients = append(clients, rules.Client{ID: "client-" + string(rune('a'+i)), Limits: o.Limits})
	}
	set := compile(t, []rules.Rule{rule}, clients...)
	for who, want := range map[string][]string{
		"x": {"1", "2", "3", "daily"},
		"a": {"2", "1", "3", "1s-3"},
		"b": {"daily", "1d", "1h-sliding-window", "0-concurrent"},
		"c": {"1d-fixed-window", "daily"},
	} {
		for _, name := range []string{who, "client-" + who} {
			request := rules.Attributes{user: name}
			m := set.Match(request, nil)[0]
			if name == "client-x" {
				continue
			}
			var got []string
			for i := range m.Limits {
				got = append(got, m.LimitName(i))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
		}
	}
}

// A limit of another algorithm or period replaces the only one of the rule that nothing else replaces, and keeps its
// count.
func TestALimitReplacesTheOnlyOneThatIsLeft(t *testing.T) {
	daily := rules.Limit{Name: "daily", Limit: headgate.MustParseLimit("10000/d")}
	for _, tt := range []struct {
		rule, override []rules.Limit
		want           string
	}{
		{limits("1000/d fixed-window"), limits("1000/h fixed-window"), "[1]"},
		{limits("1000/d fixed-window"), limits("10/s"), "[1]"},
		{limits("10/s", "1000/d"), limits("1000/h", "20/s"), "[2 1]"},
		{limits("10/s", "1000/d"), limits("1000/h"), "[1h]"},
		{limits("10/s"), limits("1000/h", "1000/d"), "[1h 1d]"},
		{limits("10/s"), limits("1000/h", "20/s"), "[1h 1]"},
		{limits("10/s"), limits("5 concurrent"), "[0-concurrent]"},
		{limits("5 concurrent", "10/s"), limits("5/m", "7 concurrent"), "[2 1]"},
		{[]rules.Limit{daily}, limits("1000/h"), "[1h]"},
		{limits("1000/h"), []rules.Limit{daily}, "[daily]"},
	} {
		set := compile(t, []rules.Rule{{
			ID: "r", Key: []headgate.Attribute{user}, Limits: tt.rule,
			Overrides: []rules.Override{{When: is(user, "acme"), Limits: tt.override}},
		}}, rules.Client{ID: "client", Limits: tt.override})
		for _, who := range []string{"acme", "client"} {
			m := set.Match(rules.Attributes{user: who}, nil)[0]
			var got []string
			for i := range m.Limits {
				got = append(got, m.LimitName(i))
			}
			if fmt.Sprint(got) != tt.want {
				t.Errorf("%v under %v, %s: got %v, want %s", tt.override, tt.rule, who, got, tt.want)
			}
		}
	}
}

func TestPenaltiesHaveCountersOfTheirOwn(t *testing.T) {
	set := compile(t, []rules.Rule{{
		ID: "r", Key: []headgate.Attribute{user}, Limits: []rules.Limit{{Name: "a", Limit: headgate.PerSecond(10)}, {Limit: headgate.PerHour(10)}},
		Penalty: &rules.Penalty{
			After: rules.Denials{Count: 5, Within: 1e9}, For: 1e9,
			Limits: []rules.Limit{{Name: "a", Limit: headgate.PerSecond(1)}, {Limit: headgate.PerHour(1)}},
		},
	}})
	names := set.Rule("r").Penalty.Limits
	if names[0].Name != "~a" || names[1].Name != "~2" {
		t.Errorf("got %q and %q, want ~a and ~2", names[0].Name, names[1].Name)
	}
}
