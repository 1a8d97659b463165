package match_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/rules/registry"
)

func limits(texts ...string) []rules.Limit {
	var list []rules.Limit
	for _, text := range texts {
		list = append(list, rules.Limit{Limit: headgate.MustParseLimit(text)})
	}
	return list
}

func is(a headgate.Attribute, values ...string) rules.Condition {
	return rules.Condition{Tests: []rules.Test{{Attribute: a, Values: values}}}
}

// texts returns limits as they are written.
func texts(list []rules.Limit) []string {
	var texts []string
	for _, l := range list {
		texts = append(texts, l.String())
	}
	return texts
}

// The order in which settings apply to one client.
func TestPrecedence(t *testing.T) {
	rule := rules.Rule{
		ID: "search", Key: []headgate.Attribute{user}, Limits: limits("10/s"),
		Overrides: []rules.Override{
			{When: is(user, "acme", "both"), Limits: limits("100/s")},
			{When: is(header("x-plan"), "gold"), Limits: limits("50/s")},
			{When: is(ip, "10.0.0.0/8"), Unlimited: true},
			{When: is(user, "mallory", "both", "registered-mallory"), Block: true},
		},
	}
	clients := []rules.Client{
		{ID: "registered", Limits: limits("1000/s")},
		{ID: "registered-mallory", Limits: limits("1000/s")},
		{ID: "known"},
		{ID: "free", Unlimited: true},
		{ID: "blocked", Block: true},
		{ID: "special", Limits: limits("1000/s"), Rules: []rules.ClientRule{{ID: "search", Limits: limits("7/s")}}},
		{ID: "by-key", Attributes: []rules.Test{{Attribute: headgate.Attribute{Kind: headgate.AttrAPIKey}, Values: []string{"k"}}}, Limits: limits("1000/s")},
	}
	set := compile(t, []rules.Rule{rule}, clients...)
	for _, tt := range []struct {
		user, plan, ip string
		effect         match.Effect
		limits         []string
		override       int
		client         string
	}{
		{user: "alice", effect: match.Limited, limits: []string{"10/s"}, override: -1},
		{user: "acme", effect: match.Limited, limits: []string{"100/s"}, override: 0},
		{user: "acme", plan: "gold", ip: "10.1.1.1", effect: match.Limited, limits: []string{"100/s"}, override: 0},
		{user: "alice", plan: "gold", ip: "10.1.1.1", effect: match.Limited, limits: []string{"50/s"}, override: 1},
		{user: "alice", ip: "10.1.1.1", effect: match.Unlimited, override: 2},
		{user: "mallory", effect: match.Blocked, override: 3},
		{user: "both", effect: match.Blocked, override: 3}, // an override before it gives limits
		{user: "registered", effect: match.Limited, limits: []string{"1000/s"}, override: -1, client: "registered"},
		{user: "registered", plan: "gold", effect: match.Limited, limits: []string{"1000/s"}, override: -1, client: "registered"},
		{user: "registered-mallory", effect: match.Blocked, override: 3},
		{user: "known", effect: match.Limited, limits: []string{"10/s"}, override: -1, client: "known"},
		{user: "known", plan: "gold", effect: match.Limited, limits: []string{"50/s"}, override: 1, client: "known"},
		{user: "free", effect: match.Unlimited, override: -1, client: "free"},
		{user: "blocked", ip: "10.1.1.1", effect: match.Blocked, override: -1, client: "blocked"},
		{user: "special", effect: match.Limited, limits: []string{"7/s"}, override: -1, client: "special"},
		{user: "by-key", effect: match.Limited, limits: []string{"10/s"}, override: -1}, // that client is known by an API key
	} {
		request := rules.Attributes{user: tt.user, headgate.Attribute{Kind: headgate.AttrAPIKey}: "k"}
		if tt.plan != "" {
			request[header("x-plan")] = tt.plan
		}
		if tt.ip != "" {
			request[ip] = tt.ip
		}
		list := set.Match(request, nil)
		if len(list) != 1 {
			t.Fatalf("%v: %d rules matched", request, len(list))
		}
		m := list[0]
		if m.Effect != tt.effect || !slices.Equal(texts(m.Limits), tt.limits) || m.Override != tt.override || m.Client != tt.client {
			t.Errorf("%v:\n got %s %v, override %d, client %q\nwant %s %v, override %d, client %q", request,
				m.Effect, texts(m.Limits), m.Override, m.Client, tt.effect, tt.limits, tt.override, tt.client)
		}
	}
}

// The index of many overrides finds the first that matches.
func TestFirstOfManyOverridesCounts(t *testing.T) {
	rule := rules.Rule{ID: "a", Key: []headgate.Attribute{user}, Limits: limits("1/s")}
	for i := range 100 {
		o := rules.Override{When: is(user, "u"+string(rune('a'+i%26))), Limits: limits("2/s")}
		if i%3 == 1 {
			o.When = is(path, "/"+string(rune('a'+i%26))+"/**")
		}
		rule.Overrides = append(rule.Overrides, o)
	}
	set := compile(t, []rules.Rule{rule})
	slow := naive{}
	for u := range 27 {
		for p := range 27 {
			request := rules.Attributes{user: "u" + string(rune('a'+u)), path: "/" + string(rune('a'+p)) + "/x"}
			want := slices.IndexFunc(rule.Overrides, func(o rules.Override) bool { return slow.holds(&o.When, slashed{request}, &rule) })
			if got := set.Match(request, nil)[0].Override; got != want {
				t.Fatalf("%v: got override %d, want %d", request, got, want)
			}
		}
	}
}

func TestMissingAttributesOfTheKey(t *testing.T) {
	key := []headgate.Attribute{user, {Kind: headgate.AttrRegion}}
	region := key[1]
	for _, tt := range []struct {
		name     string
		fallback rules.Fallback
		request  rules.Attributes
		want     match.Effect
		key      string
	}{
		{"all there", rules.FallbackDeny, rules.Attributes{user: "u", region: "eu"}, match.Limited, "/a/user+region/\x01u\x02eu1"},
		{"none, by address", rules.FallbackIP, rules.Attributes{ip: "192.0.2.1"}, match.Limited, "/a/ip/\x09192.0.2.11"},
		{"one, by address", rules.FallbackIP, rules.Attributes{user: "u", ip: "192.0.2.1"}, match.Limited, "/a/ip/\x09192.0.2.11"},
		{"an empty one, by address", rules.FallbackIP, rules.Attributes{user: "", region: "eu", ip: "192.0.2.1"}, match.Limited, "/a/ip/\x09192.0.2.11"},
		{"no address either", rules.FallbackIP, rules.Attributes{user: "u"}, match.Skipped, ""},
		{"skip", rules.FallbackSkip, rules.Attributes{user: "u", ip: "192.0.2.1"}, match.Skipped, ""},
		{"deny", rules.FallbackDeny, rules.Attributes{user: "u", ip: "192.0.2.1"}, match.Unidentified, ""},
	} {
		set := compile(t, []rules.Rule{{ID: "a", Key: key, Fallback: tt.fallback, Limits: limits("1/s")}})
		m := set.Match(tt.request, nil)[0]
		if m.Effect != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, m.Effect, tt.want)
			continue
		}
		if tt.want == match.Limited {
			if got := string(m.AppendKey(nil, tt.request, 0)); got != tt.key {
				t.Errorf("%s: got key %q, want %q", tt.name, got, tt.key)
			}
		}
	}
}

func TestUnregisteredClients(t *testing.T) {
	rule := rules.Rule{
		ID: "a", Key: []headgate.Attribute{user}, Limits: limits("1/s"), Unregistered: rules.UnregisteredDeny,
		Overrides: []rules.Override{{When: is(user, "visitor"), Unlimited: true}},
	}
	set := compile(t, []rules.Rule{rule}, rules.Client{ID: "known"})
	for name, want := range map[string]match.Effect{"known": match.Limited, "unknown": match.UnknownClient, "visitor": match.UnknownClient} {
		if got := set.Match(rules.Attributes{user: name}, nil)[0].Effect; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	live, err := registry.New(rules.Client{ID: "unknown"})
	if err != nil {
		t.Fatal(err)
	}
	set = set.WithRegistry(live)
	for name, want := range map[string]match.Effect{"known": match.Limited, "unknown": match.Limited, "visitor": match.UnknownClient} {
		if got := set.Match(rules.Attributes{user: name}, nil)[0].Effect; got != want {
			t.Errorf("%s, with a registry: got %s, want %s", name, got, want)
		}
	}
}

func TestExemptions(t *testing.T) {
	health := is(path, "/healthz")
	list := []rules.Rule{
		{ID: "higher", Priority: 10, Limits: limits("1/s")},
		{ID: "before", Priority: 5, Limits: limits("1/s")},
		{ID: "exempt", Priority: 5, When: health, Unlimited: true},
		{ID: "behind", Priority: 5, Limits: limits("1/s")},
		{ID: "lower", Limits: limits("1/s")},
		{ID: "identified", Key: []headgate.Attribute{user}, Fallback: rules.FallbackDeny, Limits: limits("1/s")},
		{ID: "override", Limits: limits("1/s"), Overrides: []rules.Override{{When: is(ip, "10.0.0.0/8"), Unlimited: true}}},
		{ID: "block", When: is(ip, "203.0.113.0/24"), Block: true},
	}
	set := compile(t, list)
	for _, tt := range []struct {
		path, ip string
		want     map[string]match.Effect
	}{
		{"/healthz", "203.0.113.9", map[string]match.Effect{
			"higher": match.Limited, "before": match.Exempted, "exempt": match.Unlimited, "behind": match.Exempted,
			"lower": match.Exempted, "identified": match.Exempted, "override": match.Exempted, "block": match.Blocked,
		}},
		// An override that is unlimited exempts from its own rule only.
		{"/", "10.1.1.1", map[string]match.Effect{
			"higher": match.Limited, "before": match.Limited, "behind": match.Limited,
			"lower": match.Limited, "identified": match.Unidentified, "override": match.Unlimited,
		}},
	} {
		got := map[string]match.Effect{}
		for _, m := range set.Match(rules.Attributes{path: tt.path, ip: tt.ip}, nil) {
			got[m.Rule.ID] = m.Effect
			if m.Effect != match.Limited && m.Limits != nil {
				t.Errorf("%s: %s, and has limits", m.Rule.ID, m.Effect)
			}
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s: got %v, want %v", tt.path, got, tt.want)
		}
		for id, want := range tt.want {
			if got[id] != want {
				t.Errorf("%s, rule %s: got %s, want %s", tt.path, id, got[id], want)
			}
		}
	}
}

func TestOneRuleByItsID(t *testing.T) {
	set := compile(t, []rules.Rule{
		{ID: "a", When: is(path, "/a"), Key: []headgate.Attribute{user}, Limits: limits("1/s")},
		{ID: "off", Disabled: true, Limits: limits("1/s")},
	})
	m, ok := set.MatchRule("a", rules.Attributes{user: "u", path: "/other"})
	if !ok || m.Effect != match.Limited || len(m.Limits) != 1 {
		t.Errorf("got %+v, %v, want the rule, though its condition is not true", m, ok)
	}
	for _, id := range []string{"off", "nobody"} {
		if _, ok := set.MatchRule(id, rules.Attributes{}); ok || set.Rule(id) != nil {
			t.Errorf("%s: found, want no rule that is not in force", id)
		}
	}
	if set.Len() != 1 || len(set.Rules()) != 1 || set.Rule("a").Status != 429 {
		t.Errorf("got %d rules, %+v", set.Len(), set.Rules())
	}
}

func TestFullAddressIsCompared(t *testing.T) {
	set := compile(t, []rules.Rule{{ID: "a", When: is(ip, "2001:db8::7"), Limits: limits("1/s")}})
	known := rules.Attributes{ip: "2001:db8::/64"} // by its network
	if got := set.Match(known, nil); len(got) != 0 {
		t.Errorf("a network matches an address in it")
	}
	if got := set.Match(addressed{known, "2001:db8::7"}, nil); len(got) != 1 {
		t.Errorf("the address of a client that is counted by its network does not match")
	}
}

// addressed is a subject that knows its full address.
type addressed struct {
	rules.Attributes
	address string
}

func (a addressed) Addr() netip.Addr { return netip.MustParseAddr(a.address) }

// repeated is a request in which some attributes were sent several times.
type repeated struct {
	rules.Attributes
	names map[headgate.Attribute]bool
}

func (r repeated) Repeats(a headgate.Attribute) bool { return r.names[a] }

// A client that sends an identifying attribute with two values could be another each time: rules that count by it deny
// the request, whatever their fallback is; other rules do not.
func TestRepeatedKeyAttributeIsDenied(t *testing.T) {
	session := headgate.Attribute{Kind: headgate.AttrCookie, Name: "session"}
	token := headgate.Attribute{Kind: headgate.AttrQuery, Name: "token"}
	list := []rules.Rule{
		{ID: "user", Key: []headgate.Attribute{user}, Limits: limits("1/s")},
		{ID: "cookie", Key: []headgate.Attribute{session}, Limits: limits("1/s"), Fallback: rules.FallbackSkip},
		{ID: "again", Key: []headgate.Attribute{session}, Limits: limits("2/s")},
		{ID: "both", Key: []headgate.Attribute{user, token}, Limits: limits("1/s")},
		{ID: "header", Key: []headgate.Attribute{header("x-tenant")}, Limits: limits("1/s")},
		{ID: "condition", When: is(session, "a"), Limits: limits("1/s")},
	}
	for _, tt := range []struct {
		name   string
		twice  []headgate.Attribute
		denied []string
	}{
		{"none", nil, nil},
		{"a cookie", []headgate.Attribute{session}, []string{"cookie", "again"}},
		{"a parameter", []headgate.Attribute{token}, []string{"both"}},
		{"a header", []headgate.Attribute{header("x-tenant")}, []string{"header"}},
		{"an attribute of no key", []headgate.Attribute{header("accept")}, nil},
	} {
		for _, empty := range []bool{false, true} {
			r := repeated{rules.Attributes{user: "alice", session: "a", token: "t", header("x-tenant"): "acme"}, map[headgate.Attribute]bool{}}
			for _, a := range tt.twice {
				r.names[a] = true
				if empty && a != session { // sent empty first
					delete(r.Attributes, a)
				}
			}
			var denied []string
			for _, m := range compile(t, list).Match(r, nil) {
				if m.Effect.Denies() {
					denied = append(denied, m.Rule.ID)
					if m.Effect != match.Ambiguous || m.Limits != nil {
						t.Errorf("%s, %s: got %s, %v", tt.name, m.Rule.ID, m.Effect, m.Limits)
					}
				}
			}
			if !slices.Equal(denied, tt.denied) {
				t.Errorf("%s: denied by %v, want %v", tt.name, denied, tt.denied)
			}
		}
	}
}
