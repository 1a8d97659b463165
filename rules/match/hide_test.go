package match_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/rules/registry"
)

var apiKeyAttribute = headgate.Attribute{Kind: headgate.AttrAPIKey}

// registered compiles rules that count users and API keys of registered clients only.
func registered(t *testing.T, r *registry.Registry) *match.Set {
	t.Helper()
	return compile(t, []rules.Rule{
		{ID: "user", Key: []headgate.Attribute{user}, Limits: limits("1/s"), Unregistered: rules.UnregisteredDeny},
		{ID: "key", Key: []headgate.Attribute{apiKeyAttribute}, Limits: limits("1/s")},
	}).WithClients(r)
}

// counts returns the limits of a user and an API key, 0 if the request is denied.
func counts(set *match.Set, name, key string, dst []match.Result) [2]int64 {
	var made [2]int64
	for i, m := range set.Match(rules.Attributes{user: name, apiKeyAttribute: key}, dst[:0]) {
		if !m.Effect.Denies() {
			made[i] = m.Limits[0].Count
		}
	}
	return made
}

func put(t *testing.T, r *registry.Registry, id, limit string, attributes []rules.Test) {
	t.Helper()
	if err := r.Put(rules.Client{ID: id, Attributes: attributes, Limits: limits(limit)}); err != nil {
		t.Fatal(err)
	}
}

func TestHiddenChangeIsSeenWhenItEnds(t *testing.T) {
	t.Parallel()
	for name, swapped := range map[string]bool{"the same rules": false, "other rules": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := registry.New()
			if err != nil {
				t.Fatal(err)
			}
			put(t, r, "plain", "2/s", nil)
			put(t, r, "named", "3/s", append(named(user, "x", "y"), named(apiKeyAttribute, "k")...))
			set := registered(t, r)
			see := func(set *match.Set, when string, want map[[2]string][2]int64) {
				t.Helper()
				for of, want := range want {
					if got := counts(set, of[0], of[1], nil); got != want {
						t.Errorf("%s, %s: got %d, want %d", when, of, got, want)
					}
					m, _ := set.MatchRule("user", rules.Attributes{user: of[0]})
					if denied := m.Effect == match.UnknownClient; denied != (want[0] == 0) {
						t.Errorf("%s, %s: got %s for the one rule", when, of, m.Effect)
					}
				}
			}
			old := map[[2]string][2]int64{{"plain", "k"}: {2, 3}, {"x", "l"}: {3, 1}, {"y", "l"}: {3, 1}, {"new", "k"}: {0, 3}, {"z", "k"}: {0, 3}}
			see(set, "before", old)
			end := set.HideChanges()
			other := registered(t, r)
			see(set, "hidden", old)
			r.Remove("plain")
			see(set, "one is gone", old)
			r.Remove("named")
			see(set, "all are gone", old)
			if r.Len() != 0 {
				t.Errorf("%d clients are left", r.Len())
			}
			put(t, r, "new", "4/s", nil)
			put(t, r, "plain", "5/s", named(user, "x", "plain"))
			put(t, r, "third", "6/s", append(named(user, "z"), named(apiKeyAttribute, "l")...))
			put(t, r, "third", "7/s", append(named(user, "z"), named(apiKeyAttribute, "l")...))
			see(set, "all is done", old)
			changed := map[[2]string][2]int64{{"plain", "k"}: {5, 1}, {"x", "l"}: {5, 7}, {"y", "k"}: {0, 1}, {"new", "k"}: {4, 1}, {"z", "k"}: {7, 1}}
			see(other, "other rules", changed)
			end(!swapped)
			if swapped {
				for round := range 3 {
					see(set, "the old rules when it is over", old)
					next := other.HideChanges()
					put(t, r, "new", fmt.Sprint(9+round, "/s"), append(named(user, "new", "w"), named(apiKeyAttribute, "k")...))
					see(set, "the old rules during a later change", old)
					r.Remove("new")
					put(t, r, "new", "4/s", nil)
					next(true)
				}
				see(set, "the old rules after others", old)
				see(other, "the other rules when it is over", changed)
				return
			}
			see(set, "when it is over", changed)
			put(t, r, "new", "8/s", nil)
			see(set, "after another change", map[[2]string][2]int64{{"new", "l"}: {8, 7}})
		})
	}
}

// A match that looks up two clients while both change sees both before or both after the change.
func TestMatchSeesOneState(t *testing.T) {
	t.Parallel()
	r, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	clients := func(round int) {
		limit := fmt.Sprint(2+round, "/s")
		if round%3 == 0 { // the values have other owners
			r.Remove("a")
			r.Remove("b")
		}
		id := round / 3 % 2
		put(t, r, []string{"a", "b"}[id], limit, named(user, "x"))
		put(t, r, []string{"b", "a"}[id], limit, named(apiKeyAttribute, "k"))
	}
	clients(0)
	set := registered(t, r)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			dst := make([]match.Result, 0, 2)
			last := int64(0)
			for {
				select {
				case <-done:
					return
				default:
				}
				got := counts(set, "x", "k", dst)
				if got[0] != got[1] || got[0] < max(last, 2) {
					t.Errorf("got %d after %d, want both clients of the same change, in order", got, last)
					return
				}
				last = got[0]
			}
		})
	}
	for round := 1; round <= 3000; round++ {
		end := set.HideChanges()
		clients(round)
		end(true)
	}
	close(done)
	readers.Wait()
}
