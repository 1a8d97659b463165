package follow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control/follow"
	"github.com/headgate/headgate/server/control/remote"
)

const byPlan = `{"id":"per-user","key":["user"],"limits":["10/s"],"overrides":[
	{"when":{"client.plan":"gold"},"limits":["500/s"]},{"when":{"client.plan":"silver"},"limits":["50/s"]}]}`

// The limit of a client depends on its property plan, also after a change of that client alone, and on a node that
// starts without the service.
func TestNodeAppliesClientProperties(t *testing.T) {
	t.Parallel()
	s := startService(t, openDB(t))
	s.put(t, remote.Rules, "per-user", byPlan)
	for i := range 300 {
		id := fmt.Sprint("client-", i)
		s.put(t, remote.Clients, id, fmt.Sprintf(`{"id":%q,"attributes":{"plan":"plan-%d"}}`, id, i%3))
	}
	dir := t.TempDir()
	n := open(t, follow.Config{Dir: dir, Poll: time.Hour, Source: follow.Remote(s.client(t, s.node))})
	stop := n.run(t)
	until(t, "the push", func() bool { return n.Status().Push })
	if got := n.limit("acme"); got != 10 {
		t.Errorf("nobody registered: got %d, want 10", got)
	}
	for _, tt := range []struct {
		attributes string
		want       int64
	}{
		{`{"plan":"gold"}`, 500},
		{`{"plan":"silver","seats":12}`, 50},
		{`{"plan":"none"}`, 10},
		{`{"plan":"gold","user":["acme","acme-ci"]}`, 500},
	} {
		before := s.moved.Load()
		s.put(t, remote.Clients, "acme", `{"id":"acme","attributes":`+tt.attributes+`}`)
		until(t, tt.attributes, func() bool { return n.limit("acme") == tt.want })
		if moved := s.moved.Load() - before; moved > 10_000 {
			t.Errorf("%s: %d bytes moved, want at most 10 kB", tt.attributes, moved)
		}
	}
	// A temporary override does not change the property.
	revision := s.put(t, remote.Overrides, "o", `{"id":"o","client":{"user":"acme"},"limits":["7/s"],"for":"1h"}`)
	until(t, "an override", func() bool { return n.limit("acme") == 7 })
	if err := s.admin.Delete(t.Context(), remote.Overrides, "o", revision); err != nil {
		t.Fatal(err)
	}
	until(t, "no override", func() bool { return n.limit("acme") == 500 && n.limit("acme-ci") == 500 })
	if got := n.Status(); got.Snapshots != 1 || got.RefusalReason != "" {
		t.Errorf("got %+v, want one snapshot and deltas", got)
	}
	stop()
	alone := open(t, follow.Config{Dir: dir, Poll: time.Hour, Source: follow.Remote(s.client(t, "no-token-that-is-good"))})
	defer func() {
		if err := alone.Close(); err != nil {
			t.Error(err)
		}
	}()
	if got := alone.limit("acme"); got != 500 {
		t.Errorf("from the snapshot on disk: got %d, want 500", got)
	}
	if got := alone.limit("client-1"); got != 10 {
		t.Errorf("from the snapshot on disk: got %d, want 10", got)
	}
}
