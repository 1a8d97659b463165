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
	return newKeyMaker(DefaultPrefix, testSecret).key("", key, unsplit, "") + planOf(t, l).keySuffix
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
