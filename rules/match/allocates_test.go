//go:build !race

package match_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/manyrules"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

func TestMatchOfEveryKindAllocatesNothing(t *testing.T) {
	for _, kind := range manyrules.Kinds {
		set := compile(t, kind.Rules(100))
		asked := kind.Requests(100, 100)
		dst := make([]match.Result, 0, 16)
		i := 0
		if got := testing.AllocsPerRun(1000, func() {
			dst = set.Match(asked[i%len(asked)], dst[:0])
			i++
		}); got != 0 {
			t.Errorf("%s: Match allocates %v times, want 0", kind.Name, got)
		}
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	for _, n := range []int{3, 100, 10_000} {
		set := compile(t, manyrules.Mixed(n))
		asked := manyrules.MatchingFive(100, n)
		dst := make([]match.Result, 0, 16)
		i := 0
		if got := testing.AllocsPerRun(1000, func() {
			dst = set.Match(asked[i%len(asked)], dst[:0])
			i++
		}); got != 0 {
			t.Errorf("%d rules: Match allocates %v times, want 0", n, got)
		}
	}
}

// Every kind of condition, override and client, and up to 32 rules at once.
func TestMatchAllocatesNothingForAnyKindOfRule(t *testing.T) {
	list := []rules.Rule{
		{ID: "net", When: is(ip, "10.0.0.0/8", "2001:db8::/32"), Limits: limits("1/s")},
		{ID: "not", When: rules.Condition{Not: []rules.Condition{is(user, "nobody")}}, Limits: limits("1/s")},
		{ID: "any", When: rules.Condition{Any: []rules.Condition{is(user, "alice"), is(path, "/**/c")}}, Limits: limits("1/s")},
		{ID: "run", When: is(user, "al*"), Limits: limits("1/s")},
		{ID: "glob", When: is(path, "/a/*/c", "/**/x*"), Limits: limits("1/s")},
		{ID: "host", When: is(host, "*.example.com"), Namespace: "shop", Limits: limits("1/s")},
		{ID: "fallback", Key: []headgate.Attribute{header("x-none")}, Limits: limits("1/s")},
		{ID: "registered", Key: []headgate.Attribute{user}, Unregistered: rules.UnregisteredDeny, Limits: limits("1/s")},
		{ID: "exempt", Priority: -1, Unlimited: true},
	}
	r := rules.Rule{ID: "overrides", Key: []headgate.Attribute{user}, Limits: limits("1/s")}
	for i := range 50 {
		r.Overrides = append(r.Overrides, rules.Override{When: is(user, fmt.Sprint("u", i)), Block: i%2 == 0, Unlimited: i%2 == 1})
	}
	list = append(list, r)
	for len(list) < 32 {
		list = append(list, rules.Rule{ID: fmt.Sprint("more-", len(list)), Limits: limits("1/s")})
	}
	set := compile(t, list, rules.Client{ID: "alice", Limits: limits("5/s")})
	request := &manyrules.Request{Host: "www.example.com", Path: "/a/b/c", User: "alice", IP: "10.1.2.3"}
	dst := make([]match.Result, 0, 64)
	if got := testing.AllocsPerRun(100, func() { dst = set.Match(request, dst[:0]) }); got != 0 {
		t.Errorf("Match allocates %v times, want 0", got)
	}
	if len(dst) != 32 {
		t.Errorf("%d rules matched, want 32", len(dst))
	}
	var found bool
	if got := testing.AllocsPerRun(100, func() { dst, found = set.AppendRule("overrides", request, dst[:0]) }); got != 0 || !found {
		t.Errorf("AppendRule allocates %v times, want 0", got)
	}
	var one match.Result
	other := *request
	other.User = "bob"
	if got := testing.AllocsPerRun(100, func() { one, found = set.MatchRule("overrides", &other) }); got != 0 || !found || one.Rule == nil {
		t.Errorf("MatchRule allocates %v times for an unregistered client, want 0", got)
	}
}

func TestPropertiesAllocateNothing(t *testing.T) {
	many := plans("many", user)
	for i := range 50 {
		many.Overrides = append(many.Overrides, rules.Override{When: is(of("plan"), fmt.Sprint("p", i)), Limits: limits("3/s")})
	}
	set := compile(t, []rules.Rule{
		plans("few", user), many, plans("both", apiKeyAttribute, user), plans("shared"),
		{ID: "when", When: is(of("plan"), "p7"), Limits: limits("1/s")},
		{ID: "not", When: rules.Condition{Not: []rules.Condition{is(of("tier"), "*")}}, Limits: limits("1/s")},
	}, rules.Client{ID: "alice", Properties: on("p7")}, rules.Client{ID: "bob", Properties: on("gold"), Attributes: named(apiKeyAttribute, "k")})
	dst := make([]match.Result, 0, 16)
	for _, r := range []*manyrules.Request{{User: "alice", APIKey: "x", IP: "10.1.2.3"}, {User: "x", APIKey: "k"}, {IP: "10.1.2.3"}} {
		if got := testing.AllocsPerRun(100, func() { dst = set.Match(r, dst[:0]) }); got != 0 {
			t.Errorf("%+v: Match allocates %v times, want 0", r, got)
		}
	}
}

func TestKeysAllocateNothing(t *testing.T) {
	set := compile(t, []rules.Rule{{ID: "a", Key: []headgate.Attribute{user, path}, Limits: limits("1/s", "5/m")}}, rules.Client{ID: "u", Limits: limits("7/s")})
	for _, r := range []*manyrules.Request{{User: "u", Path: "/a"}, {User: "someone", Path: "/" + strings.Repeat("long", 500)}} {
		m := set.Match(r, nil)[0]
		buffer := make([]byte, 0, 4096)
		if got := testing.AllocsPerRun(100, func() {
			buffer = buffer[:0]
			for i := range m.Limits {
				buffer = m.AppendKey(buffer, r, i)
			}
			buffer = m.AppendOwner(buffer, r)
		}); got != 0 {
			t.Errorf("%s: allocates %v times, want 0", r.User, got)
		}
	}
}

func TestOtherNotationsOfAPathAllocateNothing(t *testing.T) {
	set := setOf(t, append(lowerCaseRules(), rules.Rule{ID: "method", When: is(method, "POST"), Limits: limits("1/s")})...)
	dst, buffer := make([]match.Result, 0, 16), make([]byte, 0, 4096)
	for _, text := range []string{"/API/V1/Users/", "/api/v1/%C3%84/USERS", "/API" + strings.Repeat("/Long", 500)} {
		r := &manyrules.Request{User: "alice", Path: text, Method: "post"}
		if got := testing.AllocsPerRun(1000, func() {
			dst = set.Match(r, dst[:0])
			for i := range dst {
				buffer = dst[i].AppendOwner(dst[i].AppendKey(buffer[:0], r, 0), r)
			}
			dst, _ = set.AppendRule("below", r, dst[:0])
		}); got != 0 {
			t.Errorf("%.20s: allocates %v times, want 0", text, got)
		}
	}
}
