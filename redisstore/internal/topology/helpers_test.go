package topology

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/redisurl"
)

const (
	// unhurried is a timeout for calls that must not fail only because the machine is busy.
	unhurried = 30 * time.Second
	// soon is how long things that take less than a second on a quiet machine may take on any.
	soon = 10 * time.Second
	// defaultHang is the hang timeout unless the URL has one.
	defaultHang = time.Second
)

// newClient returns a client for a URL that is closed with the test, without waiting for a connection.
func newClient(t testing.TB, url string, o Options) *Client {
	t.Helper()
	e, err := redisurl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	if e.DialTimeout == 0 {
		e.DialTimeout = unhurried
	}
	if e.HangTimeout == 0 {
		e.HangTimeout = defaultHang
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// connect returns a client that is connected. On a busy machine a server can be silent for so long that it counts as
// unreachable.
func connect(t testing.TB, url string, o Options) *Client {
	t.Helper()
	c := newClient(t, url, o)
	ctx := within(t, 2*time.Minute)
	err := c.Connect(ctx)
	for errors.Is(err, ErrUnreachable) && !IsPermanent(err) && ctx.Err() == nil {
		err = c.Connect(ctx)
	}
	if err != nil {
		t.Fatalf("connect to %s: %v", url, err)
	}
	return c
}

// call runs a script that writes to a key, as a decision does.
func call(ctx context.Context, c *Client, key string) error {
	const script = "redis.call('TIME') return redis.call('INCR', KEYS[1])"
	return c.Explain(c.Do(ctx, c.Builder().Eval().Script(script).Numkeys(1).Key(key).Build()).Error(), c.ShardOf(key))
}

// contains checks that an error contains words.
func contains(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("got %v\nwant %q in it", err, w)
		}
	}
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
