package match_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/rules/registry"
)

// of returns the attribute that conditions refer to a property by.
func of(property string) headgate.Attribute {
	return headgate.Attribute{Kind: headgate.AttrClient, Name: property}
}

// on returns the properties of a client on a plan.
func on(plan string) []rules.Property { return []rules.Property{{Name: "plan", Value: plan}} }

func TestPropertiesDoNotIdentifyClients(t *testing.T) {
	t.Parallel()
	r, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	both := []rules.Property{{Name: "tier", Value: "2"}, {Name: "plan", Value: "gold"}}
	want := []rules.Property{{Name: "plan", Value: "gold"}, {Name: "tier", Value: "2"}}
	for _, c := range []rules.Client{
		{ID: "nothing", Properties: both},
		{ID: "limit", Properties: both, Limits: limits("5/s")},
		{ID: "several", Properties: both, Limits: limits("5/s", "7/h")},
		{ID: "free", Properties: both, Unlimited: true},
		{ID: "blocked", Properties: both, Block: true},
		{ID: "described", Properties: both, Description: "for people", Limits: limits("5/s")},
		{ID: "named", Properties: both, Attributes: named(apiKeyAttribute, "k1", "k2"), Limits: limits("5/s")},
		{ID: "none", Limits: limits("5/s")},
	} {
		if err := r.Add(c); err != nil {
			t.Fatal(err)
		}
		got, ok := r.Get(c.ID)
		if !ok || len(got.Limits) != len(c.Limits) || got.Unlimited != c.Unlimited || got.Block != c.Block || got.Description != c.Description {
			t.Errorf("%s: got %+v, want %+v", c.ID, got, c)
		}
		want := want
		if c.Properties == nil {
			want = nil
		}
		if !slices.Equal(got.Properties, want) {
			t.Errorf("%s: got %v, want %v", c.ID, got.Properties, want)
		}
		if by := got.Attributes[0]; c.Attributes == nil && !reflect.DeepEqual(by, named(user, c.ID)[0]) {
			t.Errorf("%s: is named by %v, want the user of its id", c.ID, by)
		}
	}
	// Properties can change without the rest of the client.
	if err := r.Put(rules.Client{ID: "limit", Properties: on("silver"), Limits: limits("5/s")}); err != nil {
		t.Fatal(err)
	}
	if got, _ := r.Get("limit"); !slices.Equal(got.Properties, on("silver")) {
		t.Errorf("got %v, want %v", got.Properties, on("silver"))
	}
	if gone, ok := r.Remove("free"); !ok || !slices.Equal(gone.Properties, want) {
		t.Errorf("removed %+v, want it with %v", gone, want)
	}
}

// plans gives other limits to clients of three plans.
func plans(id string, key ...headgate.Attribute) rules.Rule {
	return rules.Rule{ID: id, Key: key, Limits: limits("1/s"), Overrides: []rules.Override{
		{When: is(of("plan"), "gold"), Limits: limits("500/s")},
		{When: is(of("plan"), "silv*"), Limits: limits("50/s")},
		{When: is(of("plan"), "trial"), Unlimited: true},
		{When: is(of("plan"), "banned"), Block: true},
	}}
}

func TestOverridesUseTheClientOfTheKey(t *testing.T) {
	t.Parallel()
	tenant := header("x-tenant")
	clients := []rules.Client{
		{ID: "gold", Properties: on("gold")},
		{ID: "silver", Properties: on("silver"), Attributes: named(apiKeyAttribute, "k")},
		{ID: "trial", Properties: on("trial"), Attributes: named(ip, "192.0.2.1")},
		{ID: "banned", Properties: on("banned"), Limits: limits("9/s")},
		{ID: "own", Properties: on("gold"), Limits: limits("7/s")},
		{ID: "none"},
		{ID: "tenant", Properties: on("gold"), Attributes: named(tenant, "t")},
	}
	byUser, byKey := plans("user", user), plans("key", apiKeyAttribute)
	both, byTenant, shared := plans("both", user, apiKeyAttribute), plans("tenant", tenant), plans("shared")
	set := compile(t, []rules.Rule{byUser, byKey, both, byTenant, shared}, clients...)
	for name, tt := range map[string]struct {
		asks rules.Subject
		want string // what each rule says
	}{
		"nobody":               {rules.Attributes{user: "x", apiKeyAttribute: "y", tenant: "z"}, "1/s 1/s 1/s 1/s 1/s"},
		"by user":              {rules.Attributes{user: "gold", apiKeyAttribute: "y", tenant: "z"}, "500/s 1/s 500/s 1/s 500/s"},
		"by key":               {rules.Attributes{user: "x", apiKeyAttribute: "k", tenant: "z"}, "1/s 50/s 50/s 1/s 50/s"},
		"two of them":          {rules.Attributes{user: "gold", apiKeyAttribute: "k", tenant: "z"}, "500/s 50/s 500/s 1/s 50/s"},
		"one without":          {rules.Attributes{user: "none", apiKeyAttribute: "k", tenant: "z"}, "1/s 50/s 50/s 1/s 50/s"},
		"by address instead":   {rules.Attributes{ip: "192.0.2.1", apiKeyAttribute: "y", tenant: "z"}, "unlimited 1/s unlimited 1/s unlimited"},
		"a block before all":   {rules.Attributes{user: "banned", apiKeyAttribute: "y", tenant: "z"}, "blocked 1/s blocked 1/s blocked"},
		"its own limits":       {rules.Attributes{user: "own", apiKeyAttribute: "y", tenant: "z"}, "7/s 1/s 7/s 1/s 500/s"},
		"a header":             {rules.Attributes{user: "x", apiKeyAttribute: "y", tenant: "t"}, "1/s 1/s 1/s 500/s 500/s"},
		"a header, sent twice": {repeated{rules.Attributes{user: "x", apiKeyAttribute: "y", tenant: "t"}, map[headgate.Attribute]bool{tenant: true}}, "1/s 1/s 1/s ambiguous 1/s"},
		"what the request says": {
			rules.Attributes{user: "x", apiKeyAttribute: "y", tenant: "z", of("plan"): "gold"}, "1/s 1/s 1/s 1/s 1/s",
		},
	} {
		var said, alone []string
		for _, m := range set.Match(tt.asks, nil) {
			said = append(said, grants(&m))
			one, _ := set.MatchRule(m.Rule.ID, tt.asks)
			alone = append(alone, grants(&one))
		}
		if got := strings.Join(said, " "); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
		if got := strings.Join(alone, " "); got != tt.want {
			t.Errorf("%s, one by one: got %s, want %s", name, got, tt.want)
		}
	}
}

// grants returns what a rule grants.
func grants(m *match.Result) string {
	if m.Effect != match.Limited {
		return m.Effect.String()
	}
	return m.Limits[0].String()
}

func TestConditionsUseTheFirstIdentifiedClient(t *testing.T) {
	t.Parallel()
	a, b := header("a"), header("b")
	list := []rules.Rule{
		{ID: "gold", When: is(of("plan"), "gold"), Key: []headgate.Attribute{ip}, Limits: limits("1/s")},
		{ID: "silver", When: is(of("plan"), "silver"), Key: []headgate.Attribute{b, a}, Limits: limits("1/s")},
		{ID: "anyone", When: is(of("plan"), "*"), Limits: limits("1/s")},
		{ID: "none", When: rules.Condition{Not: []rules.Condition{is(of("plan"), "*")}}, Limits: limits("1/s")},
		{ID: "either", When: rules.Condition{Any: []rules.Condition{is(of("tier"), "1"), is(of("plan"), "g*")}}, Limits: limits("1/s")},
	}
	var clients []rules.Client
	for i, by := range []headgate.Attribute{apiKeyAttribute, user, a, b, ip} {
		plan := []string{"gold", "silver"}[i%2]
		clients = append(clients, rules.Client{ID: "client-" + plan + fmt.Sprint(i), Attributes: named(by, "10.0.0.1"), Properties: on(plan)})
	}
	clients = append(clients, rules.Client{ID: "tier", Attributes: named(apiKeyAttribute, "tier"), Properties: []rules.Property{{Name: "tier", Value: "1"}}})
	set := compile(t, list, clients...)
	asks := rules.Attributes{apiKeyAttribute: "10.0.0.1", user: "10.0.0.1", a: "10.0.0.1", b: "10.0.0.1", ip: "10.0.0.1"}
	for _, tt := range []struct {
		without headgate.Attribute
		want    string
	}{
		{path, "gold anyone either"},
		{apiKeyAttribute, "silver anyone"},
		{user, "gold anyone either"},
		{a, "silver anyone"},
		{b, "gold anyone either"},
		{ip, "none"},
	} {
		delete(asks, tt.without)
		var got []string
		for _, m := range set.Match(asks, nil) {
			got = append(got, m.Rule.ID)
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%v: got %s, want %s", asks, got, tt.want)
		}
	}
	// Of two identified clients, the first that has the property counts.
	want := []rules.Property{{Name: "plan", Value: "silver"}, {Name: "tier", Value: "1"}}
	if got := set.Properties("", rules.Attributes{apiKeyAttribute: "tier", user: "10.0.0.1"}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if slices.ContainsFunc(set.Attributes(), func(a headgate.Attribute) bool { return a.Kind == headgate.AttrClient }) {
		t.Errorf("got %v, want attributes of requests", set.Attributes())
	}
	for _, by := range []headgate.Attribute{apiKeyAttribute, user, a, b, ip} {
		if !slices.Contains(set.Attributes(), by) {
			t.Errorf("got %v, want %v among them", set.Attributes(), by)
		}
	}
}

// A client that is registered, changed and removed while rules ask for its plan.
func TestPropertiesThatChangeAreSeenAtOnce(t *testing.T) {
	t.Parallel()
	r, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	set := compile(t, []rules.Rule{plans("user", user)}).WithClients(r)
	see := func(when, want string) {
		t.Helper()
		if got := grants(&set.Match(rules.Attributes{user: "acme"}, nil)[0]); got != want {
			t.Errorf("%s: got %s, want %s", when, got, want)
		}
	}
	put := func(plan string) {
		t.Helper()
		if err := r.Put(rules.Client{ID: "acme", Properties: on(plan)}); err != nil {
			t.Fatal(err)
		}
	}
	see("nobody registered", "1/s")
	put("gold")
	see("gold", "500/s")
	end := set.HideChanges()
	put("silver")
	see("hidden", "500/s")
	end(true)
	see("silver", "50/s")
	r.Remove("acme")
	see("removed", "1/s")
}

func TestConflictsOfClientsWithProperties(t *testing.T) {
	t.Parallel()
	r, err := registry.New(
		rules.Client{ID: "a", Properties: on("gold"), Limits: limits("3/s")}, rules.Client{ID: "b", Properties: on("silver"), Limits: limits("3/s")},
		rules.Client{ID: "c", Limits: limits("3/s")}, rules.Client{ID: "d", Properties: on("gold")},
		rules.Client{ID: "e", Properties: on("gold"), Limits: limits("9/s")},
	)
	if err != nil {
		t.Fatal(err)
	}
	rule := plans("a", user)
	rule.Limits, rule.Cost = limits("100/s"), rules.Cost{Units: 5}
	if got, want := conflicts(compile(t, []rules.Rule{rule}), r, nil), []string{"3 3/s limits[0]"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	rule.Overrides[0].Limits = limits("4/s")
	if err := rules.Validate([]rules.Rule{rule}); err == nil || !strings.Contains(err.Error(), "rules[0].overrides[0].limits[0]") {
		t.Errorf("an override: got %v, want it refused", err)
	}
}

// describedRequest is a request with the client's properties as attributes, for the naive matcher.
type describedRequest struct {
	slashed
	plans map[headgate.Attribute]map[string]string
}

func (s describedRequest) Get(a headgate.Attribute) (string, bool) {
	if a.Kind != headgate.AttrClient {
		return s.slashed.Get(a)
	}
	for _, by := range []headgate.Attribute{apiKeyAttribute, user, {Kind: headgate.AttrJWT, Name: "org"}, ip} {
		if value, ok := s.Subject.Get(by); ok && s.plans[by][value] != "" {
			return s.plans[by][value], a.Name == "plan"
		}
	}
	return "", false
}

func TestPropertiesAgreeWithNaiveMatcher(t *testing.T) {
	t.Parallel()
	org := headgate.Attribute{Kind: headgate.AttrJWT, Name: "org"}
	matched := 0
	const seeds = 300 / racing.Slower
	for seed := range uint64(seeds) {
		s := rand.New(rand.NewPCG(seed, 3))
		list := drawRules(s, 1+s.IntN(60))
		list = append(list, rules.Rule{ID: "by-org", Key: []headgate.Attribute{org}, Limits: limits("1/s"), Fallback: rules.FallbackSkip})
		for i := range list {
			c := &list[i].When
			if s.IntN(2) == 0 {
				c.Tests = append(c.Tests, rules.Test{Attribute: of("plan"), Values: []string{drawPattern(s, headgate.AttrClient)}})
			}
			if s.IntN(4) == 0 {
				c.Not = append(c.Not, is(of(pick(s, "plan", "tier")), drawPattern(s, headgate.AttrClient)))
			}
		}
		known := map[headgate.Attribute]map[string]string{}
		var clients []rules.Client
		for _, a := range []headgate.Attribute{apiKeyAttribute, user, org} {
			known[a] = map[string]string{}
			for _, value := range []string{"gold", "silver", "go", "old"} {
				if s.IntN(2) == 0 {
					plan := pick(s, "gold", "silver", "go", "free trial", "a*b")
					known[a][value] = plan
					clients = append(clients, rules.Client{ID: fmt.Sprint("c", len(clients)), Attributes: named(a, value), Properties: on(plan)})
				}
			}
		}
		set := compile(t, list, clients...)
		slow := naive{list: list}
		for range 40 {
			asks := drawRequest(s)
			want := slow.match(describedRequest{slashed{asks}, known})
			var got []string
			for _, m := range set.Match(asks, nil) {
				got = append(got, m.Rule.ID)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: request %v matches\n got %v\nwant %v\nof %s", seed, asks, got, want, describe(list, got, want))
			}
			matched += len(got)
		}
	}
	if matched < 10*seeds {
		t.Errorf("only %d rules matched: the random requests match too few of the rules", matched)
	}
}
