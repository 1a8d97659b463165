package redisstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
)

func TestLostSecretIsRestored(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	limit := headgate.MustParseLimit("100/h")
	hasty := func() *Store {
		s := open(t, server.URL(), Options{})
		s.secret.interval = 10 * time.Millisecond
		s.keys.Store(nil) // so that it is loaded again, and checked at this interval
		mustTake(t, s, headgate.Check{Key: "first", Limit: limit, Cost: 1})
		return s
	}
	a := hasty()
	if _, err := server.Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Do("SET", "hg:secret", "c29tZWJvZHkgZWxzZSdzIHNlY3JldA"); err != nil {
		t.Fatal(err)
	}
	b := hasty()
	deadline := time.Now().Add(time.Minute)
	for {
		mustTake(t, a, headgate.Check{Key: "alice", Limit: limit, Cost: 1})
		before := mustTake(t, b, headgate.Check{Key: "alice", Limit: limit}).Remaining
		mustTake(t, a, headgate.Check{Key: "alice", Limit: limit, Cost: 1})
		if mustTake(t, b, headgate.Check{Key: "alice", Limit: limit}).Remaining == before-1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("two stores still have different secrets")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := server.Do("DEL", "hg:secret"); err != nil {
		t.Fatal(err)
	}
	for {
		if reply, err := server.Do("GET", "hg:secret"); err == nil && reply != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody put the secret back")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestForeignValueOfTheSecretKeyIsAnError(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	c := headgate.Check{Key: "alice", Limit: headgate.PerHour(1), Cost: 1}
	for _, write := range [][]string{{"SET", "hg:secret", "short"}, {"SET", "hg:secret", "%%%"}, {"LPUSH", "hg:secret", "x"}} {
		for _, args := range [][]string{{"DEL", "hg:secret"}, write} {
			if _, err := server.Do(args...); err != nil {
				t.Fatal(err)
			}
		}
		_, err := open(t, server.URL(), Options{}).Take(within(t, unhurried), c)
		says(t, err, server.Addr(), " a value ", "prefix")
	}
}

// Keys need the secret, so the server with the secret is to blame while it is not known.
func testUntilTheSecretIsKnownItsServerDecidesAll(t *testing.T, cluster *redistest.ClusterSet) {
	prefix := "a"
	for cluster.PrimaryOf(prefix+":secret") == cluster.PrimaryOfSlot(0) {
		prefix += "a"
	}
	s := open(t, cluster.URL(), Options{Prefix: prefix})
	s.keys.Store(nil) // as if the servers had been unreachable when the store was opened
	c := headgate.Check{Key: "alice", Limit: headgate.PerHour(10), Cost: 1}
	want := cluster.PrimaryOf(prefix + ":secret").Addr()
	if got := s.Shard(c); got != want {
		t.Errorf("got %s, want %s, which has the secret", got, want)
	}
	if _, err := s.Take(within(t, unhurried), c); err != nil {
		t.Fatal(err)
	}
	if got, want := s.Shard(c), cluster.PrimaryOf(s.keys.Load().key("", "alice", unsplit, "")).Addr(); got != want {
		t.Errorf("then got %s, want %s", got, want)
	}
}

func TestWaitForTheSecretEndsWithTheContext(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{})
	s.keys.Store(nil) // as if the server had been unreachable when the store was opened
	server.Pause()
	defer server.Resume()
	patient, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() {
		_, _ = s.Take(patient, headgate.Check{Key: "alice", Limit: headgate.PerHour(1), Cost: 1})
	})
	for len(s.secret.loading) == 0 {
		time.Sleep(time.Millisecond)
	}
	hasty, cancelHasty := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancelHasty()
	start := time.Now()
	if _, err := s.Take(hasty, headgate.Check{Key: "bob", Limit: headgate.PerHour(1), Cost: 1}); err == nil || time.Since(start) > soon {
		t.Errorf("%v after %s, want an error after 20ms", err, time.Since(start))
	}
	cancel()
	group.Wait()
}

func TestStoresShareOneSecret(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	const stores = 8
	limit := headgate.MustParseLimit("100/h")
	var group sync.WaitGroup
	for range stores {
		s := open(t, server.URL(), Options{})
		group.Go(func() {
			if d, err := s.Take(ctx, headgate.Check{Key: "alice", Limit: limit, Cost: 1}); err != nil || !d.Allowed {
				t.Errorf("take: %+v, %v", d, err)
			}
		})
	}
	group.Wait()
	s := open(t, server.URL(), Options{})
	if d := mustTake(t, s, headgate.Check{Key: "alice", Limit: limit}); d.Remaining != 100-stores {
		t.Errorf("%d remain, want %d: not all had the same secret", d.Remaining, 100-stores)
	}
}
