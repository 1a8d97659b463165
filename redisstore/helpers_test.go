package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var testSecret = []byte("a secret that only tests know, 32")

// open opens a store for a test.
func open(t testing.TB, url string, o Options) *Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if o.DialTimeout == 0 && !strings.Contains(url, "dial_timeout") {
		o.DialTimeout = unhurried
	}
	s, err := Open(ctx, url, o)
	if err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// withClock returns a store that lives by another clock and shares the rest.
func withClock(base *Store, now func() time.Time) *Store {
	s := &Store{conn: base.conn, prefix: base.prefix, now: now}
	s.keys.Store(base.keys.Load())
	return s
}

var namespaces atomic.Int64

// apart returns a store that shares the connection and no key.
func apart(base *Store, now func() time.Time) *Store {
	s := withClock(base, now)
	s.prefix = fmt.Sprint("test", namespaces.Add(1))
	s.keys.Store(newKeyMaker(s.prefix, testSecret))
	return s
}
