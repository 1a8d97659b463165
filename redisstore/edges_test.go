package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
)

// keyOf returns the Redis key of a key without an owner.
func keyOf(t testing.TB, key string, l headgate.Limit) string {
	t.Helper()
	return newKeyMaker(DefaultPrefix, testSecret).key("", key, unsplit, "") + planOf(t, l).suffix
}

func pttl(t testing.TB, server *redistest.Server, key string) int64 {
	t.Helper()
	reply, err := server.Do("PTTL", key)
	if err != nil {
		t.Fatal(err)
	}
	return reply.(int64)
}

func TestRefundedKeyExpires(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	for _, text := range []string{"10/m", "10/m fixed-window", "10/m sliding-log", "10/m sliding-window", "10/m sliding-buckets 6", "10 concurrent ttl 1m"} {
		c := headgate.Check{Key: "alice " + text, Limit: headgate.MustParseLimit(text), Cost: 1}
		d := mustTake(t, s, c)
		if err := s.Give(ctx, c, d.Receipt); err != nil {
			t.Fatal(err)
		}
		if left := pttl(t, server, keyOf(t, c.Key, c.Limit)); left == -1 || left > 121_100 {
			t.Errorf("%s: %d ms left after a take and a give, want it to expire", text, left)
		}
		if d := mustTake(t, s, c); d.Remaining != 9 {
			t.Errorf("%s: %d remain, want 9", text, d.Remaining)
		}
	}
}

func TestDenialOfASlowerLimitLastsLongEnough(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	for _, suffix := range []string{"", " gcra", " fixed-window", " sliding-log", " sliding-window", " sliding-buckets"} {
		c := headgate.Check{Key: "alice" + suffix, Limit: headgate.MustParseLimit("10/s" + suffix), Cost: 10}
		for mustTake(t, s, c); mustTake(t, s, c).Allowed; { // until no window ends in between
		}
		c.Limit = headgate.MustParseLimit("10/h" + suffix)
		d := mustTake(t, s, c)
		if d.Allowed {
			continue // the hour began between the two
		}
		if left := pttl(t, server, keyOf(t, c.Key, c.Limit)); time.Duration(left)*time.Millisecond < d.RetryAfter-unhurried {
			t.Errorf("%q: forgotten in %d ms, to come back in %s", suffix, left, d.RetryAfter)
		}
	}
}

func TestSoakLongListsDoNotBlockTheServer(t *testing.T) {
	soak(t)
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	const count = 16_000
	for _, text := range []string{"16000/h sliding-log", "16000 concurrent ttl 1h"} {
		c := headgate.Check{Key: "alice", Limit: headgate.MustParseLimit(text), Cost: 1}
		var group sync.WaitGroup
		for range 32 {
			group.Go(func() {
				for range count / 32 {
					if d, err := s.Take(ctx, c); err != nil || !d.Allowed {
						t.Errorf("%s: %+v, %v", text, d, err)
						return
					}
				}
			})
		}
		group.Wait()
		lowered := c
		lowered.Limit.Count = 100
		for what, c := range map[string]headgate.Check{
			"one more": c, "all of it": {Key: c.Key, Limit: c.Limit, Cost: count}, "more than ever": {Key: c.Key, Limit: c.Limit, Cost: count + 1},
			"one more after the limit was lowered": lowered,
		} {
			fastest := math.Inf(1) // the others include time in which the server waits for a core
			for range 20 {
				server.ResetStats()
				if d := mustTake(t, s, c); d.Allowed || d.RetryAfter <= 0 {
					t.Errorf("%s, %s: %+v, want it denied", text, what, d)
				}
				var each float64
				for _, command := range []string{"cmdstat_evalsha", "cmdstat_evalsha_ro"} {
					for field := range strings.SplitSeq(server.Info("commandstats")[command], ",") {
						if value, ok := strings.CutPrefix(field, "usec_per_call="); ok {
							each, _ = strconv.ParseFloat(value, 64)
						}
					}
				}
				if each == 0 {
					t.Fatalf("%s, %s: the server has counted no call", text, what)
				}
				fastest = min(fastest, each)
			}
			if fastest > 5000 {
				t.Errorf("%s, %s: a call takes the server %.0f µs, want at most 5000", text, what, fastest)
			}
		}
	}
}

func testSeveralLimitsAreDecidedWhileTheirSlotMoves(t *testing.T, cluster *redistest.ClusterSet) {
	s := open(t, cluster.URL(), Options{Secret: testSecret})
	checks := threeLimits("alice")
	slot := redistest.SlotOf(s.keys.Load().key("alice", checks[0].Key, unsplit, ""))
	must := func(what string, checks []headgate.Check, want bool) {
		t.Helper()
		limited, cancel := context.WithTimeout(ctx, unhurried)
		defer cancel()
		ds, err := s.TakeAll(limited, checks, nil)
		if err != nil || headgate.Allowed(ds) != want {
			t.Errorf("%s: %+v, %v", what, ds, err)
		}
	}
	must("before", checks, true)
	to := cluster.Servers()[0]
	if to == cluster.PrimaryOfSlot(slot) {
		to = cluster.Servers()[1]
	}
	move := cluster.BeginMove(slot, to)
	must("nothing has moved", checks, true)
	day := headgate.Check{Owner: "alice", Key: "alice/day", Limit: headgate.MustParseLimit("3/24h"), Cost: 1}
	must("with a limit that is new", append(checks[:3:3], day), true)
	must("twice", append(checks[:3:3], day), true)
	move.MoveKeys(1)
	must("one has moved", append(checks[:3:3], day), true)
	must("the day is over", append(checks[:3:3], day), false)
	for move.MoveKeys(100) > 0 {
	}
	must("all have moved, the slot has not", checks, true)
	for i := 0; ; i++ {
		owner := fmt.Sprint("new", i)
		if redistest.SlotOf(s.keys.Load().key(owner, "x", unsplit, "")) == slot {
			must("a new client", threeLimits(owner), true)
			break
		}
	}
	move.Finish()
	must("after", checks, true)
	look := checks[1]
	look.Cost = 0
	await.Equal(t, "remaining of 1000 after 7 takes and one that was denied", func() int64 {
		return mustTake(t, s, look).Remaining
	}, 1000-7)
	if lost := s.LostRefunds(); lost != 0 {
		t.Errorf("%d units were lost", lost)
	}
}

func TestTwoRevisionsOfAWindowKeepTheirCounts(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	plain := headgate.MustParseLimit("10/h fixed-window")
	staggered := headgate.MustParseLimit("10/h fixed-window staggered")
	into := time.Now().UnixMicro() % time.Hour.Microseconds()
	var key string
	for i := 0; key == ""; i++ { // one whose own window began in the hour before, if there is one
		if k := fmt.Sprint("client", i); planOf(t, staggered).Offset(k) > into || i > 10_000 {
			key = k
		}
	}
	passed := 0
	for range 500 {
		for _, l := range []headgate.Limit{plain, staggered} {
			if mustTake(t, s, headgate.Check{Key: key, Limit: l, Cost: 1}).Allowed {
				passed++
			}
		}
	}
	if passed > 20 {
		t.Errorf("%d passed of 10 an hour, want at most 20", passed)
	}
}

func TestLostSecretIsRestored(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	limit := headgate.MustParseLimit("100/h")
	hasty := func() *Store {
		s := open(t, server.URL(), Options{})
		s.secret.interval = 10 * time.Millisecond
		s.keys.Store(nil) // so that it is learned again, and looked after that often
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
		says(t, err, server.Addr(), "has a value o", "prefix")
	}
}

// Keys need the secret, so the server with the secret is to blame while it is not known.
func testUntilTheSecretIsKnownItsServerDecidesAll(t *testing.T, cluster *redistest.ClusterSet) {
	prefix := "a"
	for cluster.PrimaryOf(prefix+":secret") == cluster.PrimaryOfSlot(0) {
		prefix += "a"
	}
	s := open(t, cluster.URL(), Options{Prefix: prefix})
	s.keys.Store(nil) // as if the servers had been away when the store was opened
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

func TestCloseMayComeAtAnyTime(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	for i := range 60 {
		s, err := Open(within(t, unhurried), server.URL(), Options{Prefix: fmt.Sprint("p", i)})
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for j := range 4 {
			group.Go(func() {
				for {
					_, err := s.TakeAll(within(t, time.Second), append(threeLimits(fmt.Sprint("a", j)), headgate.Check{
						Key: "all", Limit: headgate.PerHour(1), Cost: 1,
					}), nil)
					if errors.Is(err, headgate.ErrClosed) {
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(i) * 50 * time.Microsecond)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		group.Wait()
	}
}

func TestWaitForTheSecretEndsWithTheContext(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{})
	s.keys.Store(nil) // as if the server had been away when the store was opened
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

func TestSlotIsReleasedWhileMemoryIsFull(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	c := headgate.Check{Key: "alice", Limit: headgate.MustParseLimit("1 concurrent ttl 1h"), Cost: 1}
	d := mustTake(t, s, c)
	if _, err := server.Do("CONFIG", "SET", "maxmemory", "100kb"); err != nil {
		t.Fatal(err)
	}
	if err := s.Give(ctx, c, d.Receipt); err != nil {
		t.Errorf("give: %v", err)
	}
	if _, err := s.Take(ctx, c); !errors.Is(err, headgate.ErrFull) {
		t.Errorf("take: %v, want headgate.ErrFull", err)
	}
	if _, err := server.Do("CONFIG", "SET", "maxmemory", "0"); err != nil {
		t.Fatal(err)
	}
	if d := mustTake(t, s, c); !d.Allowed {
		t.Errorf("%+v, want the place to be free", d)
	}
}

func TestSplitKeysAreChargedInAllParts(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	c := headgate.Check{Key: "hot", Limit: headgate.MustParseLimit("800/h"), Cost: 1600, Split: 8}
	d, err := s.Charge(ctx, c)
	if err != nil || d.Allowed || d.Receipt.Units != 1600 || d.Remaining != -800 || d.Limit != 800 {
		t.Fatalf("%+v, %v, want 1600 charged and -800 to remain", d, err)
	}
	one := c
	one.Cost = 1
	for range 100 {
		if d := mustTake(t, s, one); d.Allowed {
			t.Fatalf("%+v, want a debt to deny in every part", d)
		}
	}
	if err := s.Give(ctx, c, d.Receipt); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if d := mustTake(t, s, one); !d.Allowed {
			t.Fatalf("%+v, want all to be free again", d)
		}
	}
}

func TestSplitKeysDrawOnlyPartsThatTheCostFits(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	c := headgate.Check{Key: "hot", Limit: headgate.MustParseLimit("9/h"), Cost: 2, Split: 8}
	if d := mustTake(t, s, c); !d.Allowed {
		t.Errorf("%+v, want the one part of two units to be drawn", d)
	}
	if d := mustTake(t, s, c); d.Allowed || d.RetryAfter == headgate.Never {
		t.Errorf("%+v, want it denied for a while", d)
	}
	c.Cost = 3
	if d := mustTake(t, s, c); d.RetryAfter != headgate.Never {
		t.Errorf("%+v, want it denied for good", d)
	}
}

func TestReceiptsOfRemovedPartsGiveNothing(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	c := headgate.Check{Key: "hot", Limit: headgate.MustParseLimit("8/h"), Cost: 1, Split: 8}
	var receipts []headgate.Receipt
	for range 500 {
		if d := mustTake(t, s, c); d.Allowed {
			receipts = append(receipts, d.Receipt)
		}
	}
	c.Limit = headgate.MustParseLimit("4/h")
	for _, r := range receipts {
		if r.Lease&partMask > 4 {
			if err := s.Give(ctx, c, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 100 {
		if d := mustTake(t, s, c); d.Allowed {
			t.Fatalf("%+v, want refunds of other parts to free nothing", d)
		}
	}
}

func TestSplitIntoInvalidLimitsIsRefused(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	c := headgate.Check{Key: "hot", Limit: headgate.Limit{Count: 3, Period: 366 * 24 * time.Hour, Burst: 50}, Cost: 1, Split: 2}
	for range 20 {
		if _, err := s.Take(ctx, c); !errors.Is(err, headgate.ErrInvalidLimit) {
			t.Fatalf("%v, want headgate.ErrInvalidLimit each time", err)
		}
	}
}
