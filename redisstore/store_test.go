package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore/internal/topology"
)

var ctx = context.Background()

// mustTake takes, or peeks at a check that costs nothing.
func mustTake(t testing.TB, l headgate.Limiter, c headgate.Check) headgate.Decision {
	t.Helper()
	decide := l.Take
	if c.Cost == 0 {
		decide = l.Peek
	}
	d, err := decide(ctx, c)
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	return d
}

// threeLimits are those of one client.
func threeLimits(client string) []headgate.Check {
	return []headgate.Check{
		{Owner: client, Key: client + "/second", Limit: headgate.MustParseLimit("10/s burst 20"), Cost: 1},
		{Owner: client, Key: client + "/hour", Limit: headgate.MustParseLimit("1000/h sliding-window"), Cost: 1},
		{Owner: client, Key: client + "/flight", Limit: headgate.MustParseLimit("50 concurrent ttl 30s"), Cost: 1},
	}
}

func TestEveryDecisionIsOneCall(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	for _, warm := range threeLimits("warm") {
		mustTake(t, s, warm)
	}
	if _, err := s.TakeAll(ctx, threeLimits("warm"), nil); err != nil {
		t.Fatal(err)
	}
	server.ResetStats()
	const times = 50
	for i := range times {
		mustTake(t, s, threeLimits("alice")[0])
		if _, err := s.TakeAll(ctx, threeLimits(fmt.Sprint("bob", i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	stats := server.CommandStats()
	t.Logf("%d Take and %d TakeAll of three limits: %d evalsha, %d eval", times, times, stats["evalsha"], stats["eval"])
	if stats["evalsha"] != 2*times || stats["eval"] != 0 {
		t.Errorf("%d evalsha and %d eval for %d Take and %d TakeAll, want one call each", stats["evalsha"], stats["eval"], times, times)
	}
}

func TestFlushedScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	limit := headgate.MustParseLimit("100000/h")
	var stop atomic.Bool
	var flushing, asking sync.WaitGroup
	flushing.Go(func() {
		for !stop.Load() {
			server.FlushScripts()
			time.Sleep(5 * time.Millisecond)
		}
	})
	const goroutines, each = 32, 300
	for range goroutines {
		asking.Go(func() {
			for range each {
				if d, err := s.Take(ctx, headgate.Check{Key: "alice", Limit: limit, Cost: 1}); err != nil || !d.Allowed {
					t.Errorf("take: %+v, %v", d, err)
					return
				}
			}
		})
	}
	asking.Wait()
	stop.Store(true)
	flushing.Wait()
	d := mustTake(t, s, headgate.Check{Key: "alice", Limit: limit})
	if spent := 100000 - d.Remaining; spent < goroutines*each-1000 || spent > goroutines*each {
		t.Errorf("%d units are spent after %d takes", spent, goroutines*each)
	}
}

func TestKeysHideTheClient(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Prefix: "shop"})
	for _, c := range threeLimits("alice@example.com") {
		mustTake(t, s, c)
	}
	mustTake(t, s, headgate.Check{Key: "alice@example.com", Limit: headgate.PerSecond(1), Cost: 1})
	reply, err := server.Do("KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	keys, _ := reply.([]any)
	if len(keys) != 5 { // and the secret
		t.Fatalf("keys %q, want five", keys)
	}
	for _, key := range keys {
		name := fmt.Sprint(key)
		if !strings.HasPrefix(name, "shop") || strings.Contains(name, "alice") || strings.Contains(name, "example") {
			t.Errorf("key %q, want the prefix and nobody's name", name)
		}
	}
}

func TestKeysOfOneOwnerShareASlot(t *testing.T) {
	m := newKeyMaker("hg", testSecret)
	slots := map[int]bool{}
	for i := range 1000 {
		owner := fmt.Sprint("client", i)
		a, b := m.key(owner, "second", unsplit, ""), m.key(owner, "hour", unsplit, "")
		if redistest.SlotOf(a) != redistest.SlotOf(b) {
			t.Fatalf("%s and %s are in different slots", a, b)
		}
		slots[redistest.SlotOf(a)] = true
	}
	if len(slots) < 900 {
		t.Errorf("1000 owners are in %d slots, want most of them apart", len(slots))
	}
	seen := map[string]string{}
	for _, parts := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"", "abc"}, {"abc", ""}, {"\x01a", "bc"}, {"a\x00", "bc"}} {
		for _, part := range []int{unsplit, 0, 1} {
			name := m.key(parts[0], parts[1], part, "")
			what := fmt.Sprintf("%q, part %d", parts, part)
			if other, ok := seen[name]; ok {
				t.Errorf("%s has the key of %s", what, other)
			}
			seen[name] = what
		}
	}
	if m.key("", "alice", unsplit, "") == newKeyMaker("hg", []byte("another secret of 16")).key("", "alice", unsplit, "") {
		t.Error("two secrets make the same key")
	}
}

func TestOnlyIdleKeysExpire(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	for _, text := range []string{
		"10/m", "10/m gcra", "10/m leaky-bucket", "10/m fixed-window", "10/m sliding-log", "10/m sliding-window",
		"10/m sliding-buckets 6", "10 concurrent ttl 1m",
	} {
		limit := headgate.MustParseLimit(text)
		begin := time.Now()
		mustTake(t, s, headgate.Check{Key: "alice", Limit: limit, Cost: 5})
		key := newKeyMaker(DefaultPrefix, testSecret).key("", "alice", unsplit, "") + planOf(t, limit).keySuffix
		reply, err := server.Do("PTTL", key)
		left, _ := reply.(int64)
		// Half a bucket refills in half a minute; a window may end at any moment, and weighs in for another; a log and a
		// lease last their minute.
		least, most := int64(30_000), int64(31_100)
		switch limit.Algorithm {
		case headgate.FixedWindow:
			least, most = 1, 61_100
		case headgate.SlidingWindow:
			least, most = 60_000, 121_100
		case headgate.SlidingLog, headgate.Concurrency:
			least, most = 60_000, 61_100
		case headgate.SlidingBuckets:
			least, most = 50_000, 61_100
		}
		if err != nil || left < least-200-time.Since(begin).Milliseconds() || left > most {
			t.Errorf("%s: %d ms left, %v; want %d to %d", text, left, err, least, most)
		}
		if _, err := server.Do("DEL", key); err != nil {
			t.Fatal(err)
		}
	}
	brief := headgate.MustParseLimit("10/100ms")
	mustTake(t, s, headgate.Check{Key: "brief", Limit: brief, Cost: 10})
	deadline := time.Now().Add(time.Minute)
	for {
		reply, err := server.Do("DBSIZE")
		if err != nil {
			t.Fatal(err)
		}
		if reply == int64(0) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v keys are left, want none", reply)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func planOf(t testing.TB, l headgate.Limit) *plan {
	t.Helper()
	p, err := newPlan(l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestForeignValuesAreExplained(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	for _, text := range []string{"10/m", "10/m fixed-window", "10/m sliding-log", "10/m sliding-window", "10/m sliding-buckets", "10 concurrent"} {
		limit := headgate.MustParseLimit(text)
		c := headgate.Check{Key: "alice", Limit: limit, Cost: 1}
		key := newKeyMaker(DefaultPrefix, testSecret).key("", "alice", unsplit, "") + planOf(t, limit).keySuffix
		for what, write := range map[string][]string{
			"a string": {"SET", key, "hello"}, "a hash": {"HSET", key, "a", "b"},
			"a sorted set": {"ZADD", key, "1", "one"}, "a list": {"RPUSH", key, "x"}, "nothing much": {"SET", key, ""},
			"twelve letters": {"SET", key, "hello world!"}, "nineteen": {"SET", key, "hello world, hello!"},
		} {
			if _, err := server.Do("DEL", key); err != nil {
				t.Fatal(err)
			}
			if _, err := server.Do(write...); err != nil {
				t.Fatal(err)
			}
			d, err := s.Take(ctx, c)
			if err == nil || d != (headgate.Decision{}) || !strings.Contains(err.Error(), server.Addr()) || !strings.Contains(err.Error(), "refix") || !strings.Contains(err.Error(), key) {
				t.Errorf("%s under %s: %+v, %v; want an error that names the server, the key and the cure", text, what, d, err)
			}
			mine := headgate.Check{Owner: "carol", Key: "carol", Limit: limit, Cost: 1}
			other := newKeyMaker(DefaultPrefix, testSecret).key("carol", "carol", unsplit, "") + planOf(t, limit).keySuffix
			if _, err := server.Do("COPY", key, other, "REPLACE"); err != nil {
				t.Fatal(err)
			}
			ds, err := s.TakeAll(ctx, []headgate.Check{{Owner: "carol", Key: "bob", Limit: limit, Cost: 1}, mine}, nil)
			if err == nil || len(ds) != 0 || !strings.Contains(err.Error(), other) {
				t.Errorf("%s under %s: TakeAll says %+v, %v; want an error that names the key", text, what, ds, err)
			}
		}
	}
}

// Another program has changed a list, so that its entries do not match its head. No script may search for the rest
// forever: a server that runs a script does nothing else.
func TestMalformedListIsAnError(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	number := func(n int64, size int) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))[8-size:]) }
	now := time.Now().UnixMicro()
	head := func(units int64) []string { return []string{"-1", "h" + number(units, 3) + number(now, 7)} }
	entry := func(at, units int64) []string { return []string{decimal(at), number(at, 7) + number(units, 3)} }
	later := now + time.Minute.Microseconds()/2 // lives, as the time of a log's entry and as the end of a lease
	for _, text := range []string{"10/m sliding-log", "10 concurrent ttl 1m"} {
		limit := headgate.MustParseLimit(text)
		key := newKeyMaker(DefaultPrefix, testSecret).key("", "alice", unsplit, planOf(t, limit).keySuffix)
		for what, list := range map[string][]string{
			"no entries":               head(5),
			"too few entries, of ten":  append(head(10), entry(later, 1)...),
			"too few entries, of nine": append(head(9), entry(later, 1)...),
			"a dead one too many":      append(append(head(3), entry(1, 7)...), entry(later, 3)...),
			"an entry that is none":    append(head(10), decimal(later), "x"),
		} {
			told := 0 // a take that fits beside what the head says need not look
			for _, cost := range []int64{1, 3, 9, 10} {
				for _, args := range [][]string{{"DEL", key}, append([]string{"ZADD", key}, list...)} {
					if _, err := server.Do(args...); err != nil {
						t.Fatal(err)
					}
				}
				within, cancel := context.WithTimeout(ctx, 10*time.Second)
				_, err := s.Take(within, headgate.Check{Key: "alice", Limit: limit, Cost: cost})
				cancel()
				if err == nil {
					continue
				}
				told++
				var e *ServerError
				if !errors.As(err, &e) || !e.Refused() || e.Server != server.Addr() || !strings.Contains(err.Error(), key) || e.Fix != topology.FixForeignKey {
					t.Fatalf("%s, %s: a take of %d: %v; want an error of this key that names it, the server and the fix", text, what, cost, err)
				}
			}
			if told == 0 {
				t.Errorf("%s, %s: no take is told", text, what)
			}
		}
	}
}
