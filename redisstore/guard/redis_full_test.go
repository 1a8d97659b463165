package guard_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

func TestFullMemoryIsNeverAllowedSilently(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{MaxMemory: 8 << 20})
	store := openStore(t, server.URL(), redisstore.Options{})
	g := newGuard(t, store, guard.Options{Deadline: patient})
	check := func(key string, p headgate.Policy) headgate.Check {
		return headgate.Check{Key: key, Limit: headgate.MustParseLimit("10/d"), Cost: 1, OnFailure: p}
	}
	if d := mustTake(t, g, check("old", headgate.Open)); d.Degraded {
		t.Fatalf("%+v before the memory is full", d)
	}
	server.FillMemory()
	for _, text := range variety {
		d, err := store.Take(t.Context(), headgate.Check{Key: "new " + text, Limit: headgate.MustParseLimit(text), Cost: 1})
		if err == nil || d != (headgate.Decision{}) {
			t.Errorf("%s: %+v, %v; want an error", text, d, err)
			continue
		}
		if !errors.Is(err, headgate.ErrFull) || !strings.Contains(err.Error(), server.Addr()) || !strings.Contains(err.Error(), "raise its maxmemory") {
			t.Errorf("%s: %v; want headgate.ErrFull, the server and the cure", text, err)
		}
	}
	if _, err := store.TakeAll(t.Context(), limitsOf("new"), nil); !errors.Is(err, headgate.ErrFull) {
		t.Errorf("three limits: %v; want headgate.ErrFull", err)
	}
	const keys = 50
	for policy := range headgate.Local + 1 {
		for i := range keys {
			d := mustTake(t, g, check(fmt.Sprint("new ", policy, i), policy))
			if !d.Degraded || d.Allowed == (policy == headgate.Closed) {
				t.Errorf("%v: %+v while the memory is full, want it degraded and as the policy says", policy, d)
			}
		}
	}
	stats := g.Stats()
	if stats.Open != keys || stats.Closed != keys || stats.Local != keys {
		t.Errorf("%+v, want %d decisions by each policy", stats, keys)
	}
	if s := g.Shards()[0]; s.Open || !errors.Is(s.Refuses, headgate.ErrFull) || !strings.Contains(s.Refuses.Error(), "raise its maxmemory") {
		t.Errorf("%+v; want a closed circuit, for the server answers, and that it refuses, with the cure", s)
	}
	if err := store.Probe(t.Context(), server.Addr()); !errors.Is(err, headgate.ErrFull) {
		t.Errorf("a probe says %v while the memory is full, want headgate.ErrFull", err)
	}
	if _, err := server.Do("CONFIG", "SET", "maxmemory", "0"); err != nil {
		t.Fatal(err)
	}
	allowed := 0
	for range keys {
		d := mustTake(t, g, check("old", headgate.Open))
		if d.Degraded {
			t.Fatalf("%+v when there is memory again", d)
		}
		if d.Allowed {
			allowed++
		}
	}
	if allowed != 9 {
		t.Errorf("%d of %d pass when there is memory again, want 9", allowed, keys)
	}
	await.NoError(t, "the shard to refuse nothing any more", func() error { return g.Shards()[0].Refuses })
}
