package httplimit_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

type userKey struct{}

// Rules use the user that an authentication middleware has put into the context.
func TestAttributesOfTheProgram(t *testing.T) {
	store := memstore.MustNew(memstore.Options{})
	t.Cleanup(func() { store.Close() })
	user := headgate.Attribute{Kind: headgate.AttrUser}
	set, err := match.Compile([]rules.Rule{{
		ID: "per-user", Key: []headgate.Attribute{user}, Limits: []rules.Limit{{Limit: headgate.PerHour(1)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Rules: set, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	limited, err := httplimit.New(httplimit.Config{Engine: e, Attributes: func(r *http.Request) rules.Attributes {
		name, _ := r.Context().Value(userKey{}).(string)
		return rules.Attributes{user: name}
	}})
	if err != nil {
		t.Fatal(err)
	}
	authenticate := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, r.Header.Get("X-User"))))
		})
	}
	h := authenticate(limited(hello))
	for i, want := range []int{200, 429} {
		for _, name := range []string{"alice", "bob"} {
			if got := respond(h, name).StatusCode; got != want {
				t.Errorf("request %d of %s: got %d, want %d", i+1, name, got, want)
			}
		}
	}
}

// limitedBy returns a handler limited by rules, with the attributes of the program.
func limitedBy(t *testing.T, own rules.Attributes, list ...rules.Rule) http.Handler {
	t.Helper()
	store := memstore.MustNew(memstore.Options{})
	t.Cleanup(func() { store.Close() })
	set, err := match.Compile(list)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Rules: set, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	limited, err := httplimit.New(httplimit.Config{
		Engine: e, Attributes: func(*http.Request) rules.Attributes { return own },
	})
	if err != nil {
		t.Fatal(err)
	}
	return limited(hello)
}

// ruleFor returns a rule of one request an hour for the users of a plan.
func ruleFor(plan headgate.Attribute, value string) rules.Rule {
	return rules.Rule{
		ID: value, When: rules.Condition{Tests: []rules.Test{{Attribute: plan, Values: []string{value}}}},
		Key:    []headgate.Attribute{{Kind: headgate.AttrUser}},
		Limits: []rules.Limit{{Limit: headgate.PerHour(1)}},
	}
}

func TestRulesSeeEveryAttributeOfTheProgram(t *testing.T) {
	user := headgate.Attribute{Kind: headgate.AttrUser}
	header := func(name string) headgate.Attribute { return headgate.Attribute{Kind: headgate.AttrHeader, Name: name} }
	descriptor := headgate.Attribute{Kind: headgate.AttrDescriptor, Name: "plan"}
	var many []rules.Rule // so many names that the matcher looks up only those that the request has
	for i := range 100 {
		name := fmt.Sprintf("x-other-%d", i)
		many = append(many, ruleFor(header(name), name))
	}
	for _, tt := range []struct {
		name string
		own  headgate.Attribute
		rule headgate.Attribute
		list []rules.Rule
	}{
		{"a plan", descriptor, descriptor, nil},
		{"a header in lower case", header("x-plan"), header("x-plan"), nil},
		{"a header in canonical form", header("X-Plan"), header("x-plan"), nil},
		{"a header among many", header("X-Plan"), header("x-plan"), many},
	} {
		own := rules.Attributes{user: "alice", tt.own: "free"}
		before := maps.Clone(own)
		h := limitedBy(t, own, append(tt.list, ruleFor(tt.rule, "free"))...)
		for i, want := range []int{200, 429} {
			if got := respond(h, "").StatusCode; got != want {
				t.Errorf("%s, request %d: got %d, want %d", tt.name, i+1, got, want)
			}
		}
		if !maps.Equal(own, before) {
			t.Errorf("%s: the program's map is now %v, want it unchanged", tt.name, own)
		}
	}
}

// A client cannot make an attribute of the program ambiguous, or keep its address.
func TestAttributesOfTheProgramReplaceThoseOfTheClient(t *testing.T) {
	tenant := headgate.Attribute{Kind: headgate.AttrHeader, Name: "x-tenant"}
	ip := headgate.Attribute{Kind: headgate.AttrIP}
	h := limitedBy(t, rules.Attributes{tenant: "acme", ip: "203.0.113.9"}, rules.Rule{
		ID: "tenant", When: rules.Condition{Tests: []rules.Test{{Attribute: ip, Values: []string{"203.0.113.0/24"}}}},
		Key: []headgate.Attribute{tenant}, Limits: []rules.Limit{{Limit: headgate.PerHour(1)}},
	})
	for i, want := range []int{200, 429} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["X-Tenant"] = []string{"one", "two"}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("request %d: got %d, want %d", i+1, w.Code, want)
		}
	}
}
