package limiters

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/server/telemetry"
)

// The status has an error with its cause if Redis is unreachable, even without requests, and if Redis is out of memory.
// The log has a line when that begins and when it ends.
func TestStatusShowsWhyTheStoreIsDegraded(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{MaxMemory: 8 << 20})
	server.Kill()
	var book logbook.Book
	redis, err := redisstore.Open(t.Context(), server.URL(), redisstore.Options{StartUnreachable: true, Logger: book.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = redis.Close() }()
	before, err := guard.New(redis, guard.Options{Deadline: 5 * time.Second, OnEvent: func(e guard.Event) { logGuardEvent(book.Logger(), e) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = before.Close() }()
	s := &Stores{redis: redis, guardedRedis: before}
	s.servers.Store(&[]redisServer{})
	says := func(up bool, words ...string) error {
		status, degraded := s.Status()
		if len(status.Shards) == 0 && up && !degraded {
			return nil // nobody has asked for any
		}
		if degraded == up || len(status.Shards) != 1 || status.Shards[0].Name != server.Addr() || status.Shards[0].Up != up {
			return fmt.Errorf("degraded %v, %+v; want %s to be up: %v", degraded, status, server.Addr(), up)
		}
		for _, word := range words {
			if !strings.Contains(status.Shards[0].Error, word) {
				return fmt.Errorf("%q does not say %q", status.Shards[0].Error, word)
			}
		}
		return nil
	}
	if err := says(false, server.Addr(), "nothing listens", "start it"); err != nil {
		t.Error(err)
	}
	server.Restart()
	await.NoError(t, "the server to be there", func() error { return says(true) })
	take := func(key string) headgate.Decision {
		d, err := before.Take(t.Context(), headgate.Check{Key: key, Limit: headgate.MustParseLimit("10/d"), Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	await.NoError(t, "an exact decision", func() error {
		if d := take("before"); d.Degraded {
			return fmt.Errorf("got %+v", d)
		}
		return nil
	})
	await.NoError(t, "the server to be up", func() error { return says(true) })
	server.FillMemory()
	for i := range 20 {
		if d := take(fmt.Sprint("full", i)); !d.Degraded {
			t.Fatalf("got %+v while memory is full, want it degraded", d)
		}
	}
	if err := says(false, server.Addr(), "out of memory", "raise its maxmemory"); err != nil {
		t.Error(err)
	}
	var sources telemetry.Sources
	s.Measure(&sources)
	if list := sources.Shards(); len(list) != 1 || list[0].Up {
		t.Errorf("the metrics have %+v, want the shard with policies that decide", list)
	}
	if _, err := server.Do("CONFIG", "SET", "maxmemory", "0"); err != nil {
		t.Fatal(err)
	}
	await.NoError(t, "the end of it", func() error { return says(true) })
	await.NoError(t, "the log", func() error {
		for _, kind := range []guard.EventKind{guard.Refusing, guard.Deciding} {
			if n := strings.Count(book.String(), kind.String()); n != 1 {
				return fmt.Errorf("%d lines say %q, want 1", n, kind)
			}
		}
		return nil
	})
}
