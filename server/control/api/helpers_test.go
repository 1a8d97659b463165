package api_test

import (
	"net/http"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/sqlite"
	"github.com/headgate/headgate/server/control/webhook"
)

// A clock is set by tests.
type clock struct{ now atomic.Pointer[time.Time] }

func newClock() *clock {
	c := new(clock)
	now := time.Now()
	c.now.Store(&now)
	return c
}

func (c *clock) time() time.Time { return *c.now.Load() }

func (c *clock) add(d time.Duration) {
	now := c.time().Add(d)
	c.now.Store(&now)
}

// loopback allows webhooks to this host, with short retries.
var loopback = webhook.Options{
	Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("192.0.2.0/24")},
	Backoff:  time.Millisecond, MaxBackoff: 10 * time.Millisecond, Attempts: 4,
}

// from makes all calls come from an address.
func from(addr string) func(*http.Request) netip.Addr {
	return func(*http.Request) netip.Addr { return netip.MustParseAddr(addr) }
}

// openDB opens an empty database.
func openDB(t testing.TB) control.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "rules.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// attribute returns the attribute of a name.
func attribute(t testing.TB, name string) headgate.Attribute {
	t.Helper()
	a, err := headgate.ParseAttribute(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
