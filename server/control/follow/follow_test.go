package follow_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
)

func TestChangeComesIntoForce(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	commit(t, db, rule("per-user", perUser), client("acme", `{"id":"acme","limits":["50/s"]}`))
	n := open(t, follow.Config{Source: follow.Database(db, namespace, nil), Poll: time.Hour})
	for user, want := range map[string]int64{"acme": 50, "other": 10} {
		if got := n.limit(user); got != want {
			t.Errorf("%s at the start: got %d, want %d", user, got, want)
		}
	}
	n.run(t)

	commit(t, db, rule("per-user", `{"id":"per-user","key":["user"],"limits":["20/s"]}`))
	until(t, "a rule changed", func() bool { return n.limit("other") == 20 && n.limit("acme") == 50 })
	applied := n.applied.Load()
	commit(t, db, client("acme", `{"id":"acme","limits":["60/s"]}`))
	until(t, "a client changed", func() bool { return n.limit("acme") == 60 })
	commit(t, db, client("new", `{"id":"new","unlimited":true}`))
	until(t, "a client added", func() bool { return n.limit("new") == -2 })
	revision := commit(t, db, gone(control.KindClient, "acme"))
	until(t, "a client removed", func() bool { return n.limit("acme") == 20 && n.Status().Revision == revision })
	if got := n.applied.Load(); got != applied {
		t.Errorf("clients alone changed, and rules were put in force %d times", got-applied)
	}
	commit(t, db, gone(control.KindRule, "per-user"))
	until(t, "a rule removed", func() bool { return n.limit("other") == 0 })
	s := n.Status()
	if s.Snapshots != 1 || s.Deltas < 5 || s.Rules != 0 || s.Clients != 1 || !s.Push || s.Lag <= 0 || s.Checked.IsZero() {
		t.Errorf("got %+v", s)
	}
}

func TestOtherNamespacesAreIgnored(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	commit(t, db, rule("per-user", perUser))
	n := open(t, follow.Config{Source: follow.Database(db, "shop", nil), Poll: time.Hour})
	if s := n.Status(); n.limit("x") != 0 || !s.Ready || s.Revision != 0 {
		t.Errorf("got %+v, a limit of %d", s, n.limit("x"))
	}
}

// Two clients that swap their values cannot be changed one after the other.
func TestClientsSwapValues(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	commit(
		t, db, rule("per-user", perUser), client("a", `{"id":"a","attributes":{"user":"one"},"limits":["1/s"]}`),
		client("b", `{"id":"b","attributes":{"user":"two"},"limits":["2/s"]}`),
	)
	n := open(t, follow.Config{Source: follow.Database(db, namespace, nil), Poll: time.Hour})
	n.run(t)
	commit(
		t, db, client("a", `{"id":"a","attributes":{"user":"two"},"limits":["1/s"]}`),
		client("b", `{"id":"b","attributes":{"user":"one"},"limits":["2/s"]}`),
	)
	until(t, "the exchange", func() bool { return n.limit("one") == 2 && n.limit("two") == 1 })
	if s := n.Status(); s.RefusalReason != "" || s.Snapshots != 2 {
		t.Errorf("got %+v", s)
	}
}

// A change that cannot be used is refused completely, including its clients, until a later change is valid.
func TestRefusedChangeChangesNothing(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	commit(t, db, rule("per-user", perUser), client("acme", `{"id":"acme","limits":["50/s"]}`))
	n := &node{}
	n.Follower = open(t, follow.Config{
		Source: follow.Database(db, namespace, nil), Poll: 20 * time.Millisecond,
		Apply: func(set *match.Set) error {
			if set.Rule("unwanted") != nil {
				return errors.New("not here")
			}
			return n.apply(set)
		},
	}).Follower
	n.run(t)
	for name, op := range map[string]control.Op{
		"a rule that the engine refuses":                rule("unwanted", `{"id":"unwanted","limits":["1/s"]}`),
		"a rule that this version does not know":        rule("other", `{"id":"other","limits":["1/s"],"new_field":1}`),
		"a rule that cannot be":                         rule("other", `{"id":"other","limits":["1/s"],"cost":7}`),
		"a client that cannot be under the rules":       client("c", `{"id":"c","rules":[{"id":"nobody","unlimited":true}]}`),
		"a client that this version does not know":      client("c", `{"id":"c","new_field":1}`),
		"a client that has what is another's":           client("c", `{"id":"c","attributes":{"user":"acme"}}`),
		"a body of another rule":                        rule("other", `{"id":"another","limits":["1/s"]}`),
		"an override that this version does not know":   {Kind: control.KindOverride, ID: "o", Base: control.AnyRevision, Body: []byte(`{"id":"o","new_field":1}`)},
		"a rule whose limits are no limits of any kind": rule("other", `{"id":"other","limits":["lots"]}`),
	} {
		before := n.Status()
		commit(t, db, op, client("acme", `{"id":"acme","limits":["51/s"]}`), rule("per-user", `{"id":"per-user","key":["user"],"limits":["11/s"]}`))
		until(t, name, func() bool { return n.Status().RefusalReason != "" })
		s := n.Status()
		if got := n.limit("acme"); got != 50 || n.limit("x") != 10 || s.Revision != before.Revision {
			t.Errorf("%s: got %d for acme, %d for others, %+v", name, got, n.limit("x"), s)
		}
		// A refused revision is not tried again.
		until(t, "asked again", func() bool { return n.Status().Checked.After(s.Checked) })
		if got := n.Status(); got.Refusals > s.Refusals+1 || got.RefusalReason == "" {
			t.Errorf("%s: got %+v, then %+v", name, s, got)
		}
		revision := commit(t, db, gone(op.Kind, op.ID), client("acme", `{"id":"acme","limits":["50/s"]}`), rule("per-user", perUser))
		until(t, "right again after "+name, func() bool { s := n.Status(); return s.RefusalReason == "" && s.Revision == revision })
	}
}

func TestPollingFindsChangesWithoutPush(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	commit(t, db, rule("per-user", perUser))
	source := &flaky{Source: follow.Database(db, namespace, nil)}
	source.mute.Store(true)
	n := open(t, follow.Config{Source: source, Poll: 50 * time.Millisecond})
	n.run(t)
	commit(t, db, rule("per-user", `{"id":"per-user","key":["user"],"limits":["20/s"]}`))
	until(t, "a change that nobody told of", func() bool { return n.limit("x") == 20 })
	until(t, "nothing new", func() bool { return n.Status().Unchanged > 2 })
}

func TestRefreshFetchesAtOnce(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	commit(t, db, rule("per-user", perUser))
	source := &flaky{Source: follow.Database(db, namespace, nil)}
	source.mute.Store(true)
	n := open(t, follow.Config{Source: source, Poll: time.Hour})
	n.run(t)
	commit(t, db, rule("per-user", `{"id":"per-user","key":["user"],"limits":["20/s"]}`))
	n.Refresh()
	until(t, "a change that a webhook told of", func() bool { return n.limit("x") == 20 })
}

func TestServiceOutage(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	commit(t, db, rule("per-user", perUser))
	source := &flaky{Source: follow.Database(db, namespace, nil)}
	n := open(t, follow.Config{Source: source, Poll: 20 * time.Millisecond})
	n.run(t)
	source.away.Store(true)
	commit(t, db, rule("per-user", `{"id":"per-user","key":["user"],"limits":["20/s"]}`))
	until(t, "it is away", func() bool {
		s := n.Status()
		return strings.Contains(s.UnreachableReason, errAway.Error()) && s.Failures > 2
	})
	if got := n.limit("x"); got != 10 {
		t.Errorf("while it is away: got %d, want 10", got)
	}
	source.away.Store(false)
	until(t, "it is back", func() bool { return n.limit("x") == 20 && n.Status().UnreachableReason == "" })
}

// A service without rules is polled like any other, and its missing rules are logged once.
func TestMissingRulesAreLoggedOnce(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	var book logbook.Book
	n := open(t, follow.Config{Source: follow.Database(db, namespace, nil), Dir: t.TempDir(), Poll: 5 * time.Millisecond, Logger: book.Logger()})
	n.run(t)
	until(t, "it was asked again and again", func() bool { return n.Status().Unchanged > 3 })
	if s := n.Status(); s.Snapshots != 1 || !s.Ready || s.UnreachableReason != "" || n.applied.Load() != 1 || strings.Count(book.String(), "rules in force") != 1 {
		t.Errorf("got %+v, %d sets of rules in force, and in the log\n%s\nwant one", s, n.applied.Load(), book.String())
	}
	commit(t, db, rule("per-user", perUser))
	until(t, "the first rule is in force", func() bool { return n.limit("x") == 10 })
}

func TestHeartbeatsReportTheRevision(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	commit(t, db, rule("per-user", perUser))
	source := &flaky{Source: follow.Database(db, namespace, nil), beats: make(chan control.Node, 100)}
	n := open(t, follow.Config{
		Source: source, Poll: time.Hour,
		Node: func() control.Node { return control.Node{ID: "n1", Version: "v1", Store: "ok"} },
	})
	n.run(t)
	heard := func(what string, is func(control.Node) bool) {
		t.Helper()
		end := time.After(patience)
		for {
			select {
			case beat := <-source.beats:
				if beat.ID != "n1" || beat.Version != "v1" || beat.Store != "ok" || beat.Namespace != namespace {
					t.Fatalf("got %+v", beat)
				}
				if is(beat) {
					return
				}
			case <-end:
				t.Fatalf("no heartbeat that says: %s", what)
			}
		}
	}
	heard("the first revision", func(b control.Node) bool { return b.Revision == 1 && b.Error == "" })
	revision := commit(t, db, rule("more", `{"id":"more","limits":["1/s"]}`))
	heard("the second", func(b control.Node) bool { return b.Revision == revision })
	commit(t, db, rule("bad", `{"id":"bad","limits":["1/s"],"new_field":1}`))
	heard("that one was refused", func(b control.Node) bool { return b.Revision == revision && strings.Contains(b.Error, "new_field") })
}

func TestSuspiciousClientsAreLogged(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	commit(t, db, rule("per-user", perUser), client("a", `{"id":"a"}`))
	n := open(t, follow.Config{
		Source: follow.Database(db, namespace, nil), Poll: time.Hour,
		CheckClient: func(c *rules.Client) string {
			if c.ID == "odd" {
				return "it is odd"
			}
			return ""
		},
	})
	if got := n.Status().SuspiciousClient; got != "" {
		t.Errorf("got %q", got)
	}
	n.run(t)
	commit(t, db, client("odd", `{"id":"odd"}`))
	const want = `client "odd": it is odd`
	until(t, want, func() bool { return n.Status().SuspiciousClient == want && n.Status().Clients == 2 })
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	t.Parallel()
	source := follow.Database(openDB(t), namespace, nil)
	for name, c := range map[string]follow.Config{
		"no source":         {Apply: func(*match.Set) error { return nil }},
		"no apply":          {Source: source},
		"a poll before now": {Source: source, Apply: func(*match.Set) error { return nil }, Poll: -1},
	} {
		if _, err := follow.Open(t.Context(), c); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
