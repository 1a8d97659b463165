package match_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/rules/registry"
)

func named(a headgate.Attribute, values ...string) []rules.Test {
	return []rules.Test{{Attribute: a, Values: values}}
}

// clientOf returns the id of the client that a registry finds by an attribute.
func clientOf(t *testing.T, r *registry.Registry, a headgate.Attribute, value string) string {
	t.Helper()
	set := compile(t, []rules.Rule{{ID: "r", Key: []headgate.Attribute{a}, Limits: limits("1/s")}}).WithRegistry(r)
	return set.Match(rules.Attributes{a: value}, nil)[0].Client
}

func TestRegistry(t *testing.T) {
	r, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	apiKey := headgate.Attribute{Kind: headgate.AttrAPIKey}
	acme := rules.Client{ID: "acme", Attributes: append(named(user, "acme", "acme-ci"), named(apiKey, "same")...)}
	if err := r.Add(acme); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(acme); !errors.Is(err, rules.ErrInvalid) || !strings.Contains(err.Error(), "not registered yet") {
		t.Errorf("adding one twice: got %v", err)
	}
	// The same value of another attribute belongs to another client.
	if err := r.Add(rules.Client{ID: "other", Attributes: named(user, "same")}); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(rules.Client{ID: "thief", Attributes: named(user, "x", "acme-ci")}); err == nil || !strings.Contains(err.Error(), `identifies "acme"`) {
		t.Errorf("a value of another client: got %v", err)
	}
	for _, tt := range []struct {
		attribute   headgate.Attribute
		value, want string
	}{
		{user, "acme", "acme"},
		{user, "acme-ci", "acme"},
		{apiKey, "same", "acme"},
		{user, "same", "other"},
		{user, "x", ""},
		{apiKey, "acme", ""},
	} {
		if got := clientOf(t, r, tt.attribute, tt.value); got != tt.want {
			t.Errorf("%s %s: got %q, want %q", tt.attribute, tt.value, got, tt.want)
		}
	}

	acme.Attributes = named(user, "acme-ci", "new")
	if err := r.Put(acme); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{"acme": "", "acme-ci": "acme", "new": "acme", "same": "other"} {
		if got := clientOf(t, r, user, value); got != want {
			t.Errorf("after a change, %s: got %q, want %q", value, got, want)
		}
	}
	if got := clientOf(t, r, apiKey, "same"); got != "" {
		t.Errorf("after a change, the API key still names %q", got)
	}
	if c, ok := r.Get("acme"); !ok || c.ID != "acme" || r.Len() != 2 {
		t.Errorf("got %v, %v, %d clients", c, ok, r.Len())
	}
	if c, ok := r.Remove("acme"); !ok || c.ID != "acme" {
		t.Errorf("got %v, %v", c, ok)
	}
	if _, ok := r.Remove("acme"); ok {
		t.Error("removed twice")
	}
	if got := clientOf(t, r, user, "new"); got != "" || r.Len() != 1 {
		t.Errorf("after it was removed: got %q, %d clients", got, r.Len())
	}
}

func TestClientsAreFoundByCanonicalValues(t *testing.T) {
	r, err := registry.New(
		rules.Client{ID: "a", Attributes: named(host, "API.Example.COM")},
		rules.Client{ID: "b", Attributes: named(ip, "::ffff:192.0.2.1", "2001:DB8::/64", "10.0.0.1/32")},
		rules.Client{ID: "default"},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		attribute   headgate.Attribute
		value, want string
	}{
		{host, "api.example.com", "a"}, {ip, "192.0.2.1", "b"}, {ip, "2001:db8::/64", "b"}, {ip, "10.0.0.1", "b"}, {user, "default", "default"},
	} {
		if got := clientOf(t, r, tt.attribute, tt.value); got != tt.want {
			t.Errorf("%s %s: got %q, want %q", tt.attribute, tt.value, got, tt.want)
		}
	}
}

// A lookup during a change finds the client before or after the change.
func TestRegistryWhileClientsChange(t *testing.T) {
	r, err := registry.New(rules.Client{ID: "stays", Limits: limits("7/s")})
	if err != nil {
		t.Fatal(err)
	}
	set := compile(t, []rules.Rule{{ID: "r", Key: []headgate.Attribute{user}, Limits: limits("1/s")}}).WithRegistry(r)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			dst := make([]match.Result, 0, 1)
			for {
				select {
				case <-done:
					return
				default:
				}
				dst = set.Match(rules.Attributes{user: "stays"}, dst[:0])
				if dst[0].Client == "" || dst[0].Limits[0].Count != 7 {
					t.Errorf("got %+v", dst[0])
					return
				}
				dst = set.Match(rules.Attributes{user: "changes"}, dst[:0])
				if n := dst[0].Limits[0].Count; n != 1 && n != 2 && n != 3 {
					t.Errorf("got %d", n)
					return
				}
			}
		})
	}
	for i := range 2000 {
		if err := r.Put(rules.Client{ID: "changes", Limits: limits(fmt.Sprint(2+i%2, "/s"))}); err != nil {
			t.Error(err)
		}
		if i%5 == 4 {
			r.Remove("changes")
		}
	}
	close(done)
	readers.Wait()
}

func TestCheckComparesAClientWithTheRules(t *testing.T) {
	set := compile(t, []rules.Rule{{ID: "r", Key: []headgate.Attribute{user}, Cost: rules.Cost{Units: 5}, Limits: limits("10/s")}})
	for _, tt := range []struct {
		client rules.Client
		want   string
	}{
		{rules.Client{ID: "a", Limits: limits("5/s")}, ""},
		{rules.Client{ID: "a", Limits: limits("4/s")}, "room for 5"},
		{rules.Client{ID: "a", Attributes: named(host, "x"), Limits: limits("4/s")}, ""},
		{rules.Client{ID: "a", Attributes: named(ip, "192.0.2.1"), Limits: limits("4/s")}, "room for 5"}, // the fallback
		{rules.Client{ID: "a", Rules: []rules.ClientRule{{ID: "nobody", Unlimited: true}}}, "an existing rule"},
		{rules.Client{ID: "a b"}, "letters"},
	} {
		err := set.Check(tt.client)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%+v: got %v, want %q", tt.client, err, tt.want)
		}
	}
}
