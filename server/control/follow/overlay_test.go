package follow_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
)

// A clock is set by the test.
type clock struct{ now atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.now.Store(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) time() time.Time       { return time.Unix(0, c.now.Load()).UTC() }
func (c *clock) move(by time.Duration) { c.now.Add(int64(by)) }

func TestOverridesPrecedeAllButBlocks(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	c := newClock()
	later := c.time().Add(time.Hour)
	limits := []string{"500/s"}
	commit(
		t, db,
		rule("per-user", `{"id":"per-user","key":["user"],"limits":["10/s"],"overrides":[{"when":{"user":"vip"},"limits":["20/s"]},{"when":{"user":"banned"},"block":true}]}`),
		rule("other", `{"id":"other","key":["user"],"limits":["9/s"]}`),
		client("own", `{"id":"own","limits":["50/s"]}`),
		client("here", `{"id":"here","limits":["50/s"],"rules":[{"id":"per-user","limits":["60/s"]}]}`),
		client("blocked", `{"id":"blocked","block":true}`),
		client("blocked-here", `{"id":"blocked-here","rules":[{"id":"per-user","block":true}]}`),
		client("several", `{"id":"several","attributes":{"user":["s1","s2"],"api_key":"k"}}`),
		client("twice", `{"id":"twice"}`),
		client("elsewhere", `{"id":"elsewhere","limits":["50/s"]}`),
		override(control.Override{ID: "a", Client: map[string]string{"user": "own"}, Limits: limits, Expires: later}),
		override(control.Override{ID: "b", Client: map[string]string{"user": "here"}, Limits: limits, Expires: later}),
		override(control.Override{ID: "c", Client: map[string]string{"user": "blocked"}, Limits: limits, Expires: later}),
		override(control.Override{ID: "d", Client: map[string]string{"user": "blocked-here"}, Limits: limits, Expires: later}),
		override(control.Override{ID: "e", Client: map[string]string{"user": "vip"}, Limits: limits, Expires: later}),
		override(control.Override{ID: "f", Client: map[string]string{"user": "banned"}, Limits: limits, Expires: later}),
		override(control.Override{ID: "g", Client: map[string]string{"user": "nobody"}, Limits: limits, Expires: later}),
		override(control.Override{ID: "h", Client: map[string]string{"api_key": "k"}, Unlimited: true, Expires: later}),
		override(control.Override{ID: "i", Client: map[string]string{"user": "twice"}, Limits: limits, Rule: "per-user", Expires: later}),
		override(control.Override{ID: "j", Client: map[string]string{"user": "twice"}, Unlimited: true, Expires: later}),
		override(control.Override{ID: "k", Client: map[string]string{"user": "elsewhere"}, Limits: limits, Rule: "other", Expires: later}),
		override(control.Override{ID: "l", Client: map[string]string{"user": "stop"}, Block: true, Expires: later}),
		override(control.Override{ID: "m", Client: map[string]string{"user": "stop"}, Limits: limits, Expires: later}),
		override(control.Override{ID: "n", Client: map[string]string{"user": "x"}, Limits: limits, Rule: "gone", Expires: later}),
		override(control.Override{ID: "o", Client: map[string]string{"user": "over"}, Limits: limits, Expires: c.time()}),
	)
	n := open(t, follow.Config{Source: follow.Database(db, namespace, nil), Poll: time.Hour, Clock: c.time})
	for user, want := range map[string]int64{
		"own": 500, "here": 500, "blocked": -1, "blocked-here": -1, "vip": 500, "banned": -1, "nobody": 500, "s1": -2, "s2": -2,
		"twice": 500, "elsewhere": 50, "stop": -1, "x": 10, "over": 10, "anybody": 10,
	} {
		if got := n.limit(user); got != want {
			t.Errorf("%s: got %d, want %d", user, got, want)
		}
	}
	if got := n.Status().Overrides; got != 14 {
		t.Errorf("got %d overrides that hold, want 14", got)
	}
}

// A client can change while an override is in force, and has the change when the override ends, even if the service is
// unreachable.
func TestOverridesExpireByTheNodesClock(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	c := newClock()
	commit(
		t, db, rule("per-user", perUser), client("acme", `{"id":"acme","limits":["50/s"]}`),
		override(control.Override{ID: "o", Client: map[string]string{"user": "acme"}, Limits: []string{"500/s"}, Expires: c.time().Add(time.Hour)}),
		override(control.Override{ID: "p", Client: map[string]string{"user": "new"}, Limits: []string{"500/s"}, Expires: c.time().Add(2 * time.Hour)}),
	)
	source := &flaky{Source: follow.Database(db, namespace, nil)}
	n := open(t, follow.Config{Source: source, Poll: 20 * time.Millisecond, Clock: c.time})
	n.run(t)
	revision := commit(t, db, client("acme", `{"id":"acme","limits":["60/s"]}`))
	until(t, "the change beneath", func() bool { return n.Status().Revision == revision })
	if got := n.limit("acme"); got != 500 {
		t.Errorf("after a change beneath it: got %d, want 500", got)
	}
	// A temporary client is registered.
	revision = commit(t, db, client("new", `{"id":"new","limits":["70/s"]}`))
	until(t, "the client", func() bool { return n.Status().Revision == revision })
	if got := n.limit("new"); got != 500 {
		t.Errorf("after the client was registered: got %d, want 500", got)
	}
	source.away.Store(true)
	c.move(time.Hour - time.Microsecond)
	n.Refresh()
	until(t, "the time comes near", func() bool { return n.Status().Failures > 0 })
	if got := n.limit("acme"); got != 500 {
		t.Errorf("just before its end: got %d, want 500", got)
	}
	c.move(time.Microsecond)
	n.Refresh()
	until(t, "the end of the first", func() bool { return n.limit("acme") == 60 })
	if got := n.limit("new"); got != 500 {
		t.Errorf("the other: got %d, want 500", got)
	}
	c.move(time.Hour)
	n.Refresh()
	until(t, "the end of the second", func() bool { return n.limit("new") == 70 && n.Status().Overrides == 0 })
}

func TestOverridesAreAddedChangedAndRemoved(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	later := time.Now().Add(time.Hour)
	commit(t, db, rule("per-user", perUser), client("acme", `{"id":"acme","limits":[{"name":"mine","limit":"50/s"}]}`))
	n := open(t, follow.Config{Source: follow.Database(db, namespace, nil), Poll: time.Hour})
	n.run(t)
	for _, user := range []string{"acme", "nobody"} {
		before := n.limit(user)
		o := control.Override{ID: "o-" + user, Client: map[string]string{"user": user}, Limits: []string{"500/s"}, Expires: later}
		commit(t, db, override(o))
		until(t, "an override", func() bool { return n.limit(user) == 500 })
		o.Limits = []string{"600/s"}
		commit(t, db, override(o))
		until(t, "another", func() bool { return n.limit(user) == 600 })
		commit(t, db, gone(control.KindOverride, o.ID))
		until(t, "none", func() bool { return n.limit(user) == before })
	}
	// A client is deleted while an override changes it: the override stays.
	o := control.Override{ID: "o", Client: map[string]string{"user": "acme"}, Limits: []string{"500/s"}, Expires: later}
	commit(t, db, override(o))
	until(t, "an override", func() bool { return n.limit("acme") == 500 })
	revision := commit(t, db, gone(control.KindClient, "acme"))
	until(t, "the client goes", func() bool { return n.Status().Revision == revision })
	if got := n.limit("acme"); got != 500 {
		t.Errorf("after its client is gone: got %d, want 500", got)
	}
	commit(t, db, gone(control.KindOverride, "o"))
	until(t, "nothing", func() bool { return n.limit("acme") == 10 })
	if got := n.Status().Clients; got != 0 {
		t.Errorf("got %d clients, want none", got)
	}
}
