package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore/internal/topology"
)

var testSecret = []byte("a secret that only tests know, 32")

// open opens a store for a test. On a busy machine a server can be silent for so long that it counts as
// unreachable.
func open(t testing.TB, url string, o Options) *Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if o.DialTimeout == 0 && !strings.Contains(url, "dial_timeout") {
		o.DialTimeout = unhurried
	}
	s, err := Open(ctx, url, o)
	for errors.Is(err, ErrUnreachable) && !topology.IsPermanent(err) && ctx.Err() == nil {
		s, err = Open(ctx, url, o)
	}
	if err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// withClock returns a store with another clock that shares the rest.
func withClock(base *Store, now func() time.Time) *Store {
	s := &Store{
		client: base.client, prefix: base.prefix, now: now, clock: base.clock, rand: base.rand,
		background: base.background,
	}
	s.scripts.Store(base.scripts.Load())
	s.keys.Store(base.keys.Load())
	return s
}

var namespaces atomic.Int64

// apart returns a store that shares the connections and no key.
func apart(base *Store, now func() time.Time) *Store {
	s := withClock(base, now)
	s.prefix = fmt.Sprint("test", namespaces.Add(1))
	s.keys.Store(newKeyMaker(s.prefix, testSecret))
	return s
}

// tryOpen opens a store, and closes it with the test.
func tryOpen(t testing.TB, url string, o Options) (*Store, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s, err := Open(ctx, url, o)
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

const (
	// unhurried is a timeout for calls that must not fail only because the machine is busy.
	unhurried = 30 * time.Second
	// soon is how long things that take less than a second on a quiet machine may take on any.
	soon = 10 * time.Second
)

// notOpen expects an error of Open that contains words.
func notOpen(t *testing.T, url string, o Options, words ...string) {
	t.Helper()
	says(t, whyNotOpen(t, url, o), words...)
}

func whyNotOpen(t *testing.T, url string, o Options) error {
	t.Helper()
	_, err := tryOpen(t, url, o)
	if err == nil {
		t.Fatalf("%s can be opened", url)
	}
	return err
}

// says expects words in an error.
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("got %v\nwant %q in it", err, w)
		}
	}
}

// take takes one unit for a client.
func take(ctx context.Context, s *Store, key string) error {
	d, err := s.Take(ctx, headgate.Check{Key: key, Limit: headgate.PerSecond(1_000_000), Cost: 1})
	if err == nil && !d.Allowed {
		err = fmt.Errorf("denied: %+v", d)
	}
	return err
}

// within returns a context that ends after a while.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// freeAddr returns an address where nothing listens.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// soak skips a test of speed, which needs a quiet machine, unless HEADGATE_SOAK is set.
func soak(t testing.TB) {
	t.Helper()
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("it measures times: set HEADGATE_SOAK=1 on a quiet machine")
	}
}
