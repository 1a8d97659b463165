package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
	"github.com/headgate/headgate/server/fleet/internal/peers"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

func TestHostThatForgotAKeyTakesTheLevelOfItsPeers(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 3, asks, nil)
		limit := headgate.PerSecond(100)
		const step, forgets, end = 5 * time.Millisecond, 10 * time.Second, 30 * time.Second
		var late [3]int
		total := 0
		for at := time.Duration(0); at < end; at += step {
			if at == forgets {
				key, err := all[1].KeyOf(headgate.Check{Key: "k", Limit: limit})
				if err != nil {
					t.Fatal(err)
				}
				sh := all[1].shardOf(&key)
				all[1].drop(sh, sh.records[key])
				all[1].evictedAt.Store(int64(at))
			}
			for i, h := range all {
				passed := h.take("k", limit, 2)
				total += passed
				if at >= end-10*time.Second {
					late[i] += passed
				}
			}
			if at%(25*time.Millisecond) == 0 {
				shareAll(all...)
			}
			clock.Advance(step)
		}
		if most := 100 + 100*int(end.Seconds()) + 2*100 + 10; total > most {
			t.Errorf("passed in all: got %d, want at most %d: twice the burst, as it was forgotten once", total, most)
		}
		for i, h := range all {
			if late[i] < 100 {
				t.Errorf("%s: passed %d of the last 1000, want no less than 100", h.Peer.Name, late[i])
			}
			if got, want := h.remaining("k", limit), all[0].remaining("k", limit); got < want-8 || got > want+8 {
				t.Errorf("%s: remaining %d, want about %d as on the others", h.Peer.Name, got, want)
			}
		}
	})
}

func TestAHostThatIsBelowTheOthersForLongCatchesUp(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 3, asks, nil)
		limit := headgate.PerSecond(100)
		const step, misses, end = 5 * time.Millisecond, 10 * time.Second, 30 * time.Second
		for at := time.Duration(0); at < end; at += step {
			if at == misses { // whatever made it miss so much, it knows the others' totals
				key, err := all[1].KeyOf(headgate.Check{Key: "k", Limit: limit})
				if err != nil {
					t.Fatal(err)
				}
				all[1].shardOf(&key).records[key].reset(all[1].now())
			}
			for _, h := range all {
				h.take("k", limit, 2)
			}
			if at%(25*time.Millisecond) == 0 {
				shareAll(all...)
			}
			if at == misses+100*time.Millisecond {
				if low, high := all[1].remaining("k", limit), all[0].remaining("k", limit); low < high+50 {
					t.Fatalf("remaining: got %d and %d, want one far below the other", low, high)
				}
			}
			clock.Advance(step)
		}
		want := all[0].remaining("k", limit)
		if got := all[1].remaining("k", limit); got < want-30 || got > want+30 {
			t.Errorf("remaining: got %d, want about %d as on the others", got, want)
		}
		if got := all[1].Stats().Levelled; got < 50 || got > 200 {
			t.Errorf("Stats.Levelled: got %d, want about 100", got)
		}
		for _, i := range []int{0, 2} {
			if got := all[i].Stats().Levelled; got != 0 {
				t.Errorf("Stats.Levelled of %s, which has missed nothing: got %d, want 0", all[i].Peer.Name, got)
			}
		}
	})
}

func TestKeysAreBounded(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 2, asks, func(o *fleet.LedgerOptions) { o.MaxKeys = 1024 })
		h := all[0]
		limit := headgate.PerHour(3)
		for i := range 10_000 {
			h.take(fmt.Sprint(i), limit, 1)
			clock.Advance(time.Millisecond)
		}
		stats := h.Stats()
		if stats.Keys > 1024 || stats.Keys < 900 {
			t.Errorf("keys: got %d, want about 1024 and no more", stats.Keys)
		}
		if stats.Evicted < 8000 || stats.Full != 0 {
			t.Errorf("evicted %d and refused %d, want about 9000 and none", stats.Evicted, stats.Full)
		}
		// What is only heard of is bounded too.
		told := all[0].Changes(nil, 1<<20)
		for i := range 10_000 {
			sent := told[i%len(told)]
			sent.Key = tally.Key{byte(i), byte(i >> 8), byte(i >> 16)}
			all[1].Apply(h.Peer, h.Uptime(), []tally.Tally{sent})
		}
		if got := all[1].Stats().Keys; got > 1024 {
			t.Errorf("keys that were heard of: got %d, want at most 1024", got)
		}
	})
}

func TestAKeyThatIsDeniedIsNeverForgotten(t *testing.T) {
	clock, all := hosts(t, 1, false, func(o *fleet.LedgerOptions) { o.MaxKeys = 1024 })
	h := all[0]
	limit := headgate.PerHour(1)
	for i := range 4000 {
		_, err := h.Take(context.Background(), headgate.Check{Key: fmt.Sprint(i), Limit: limit, Cost: 1})
		if err == nil {
			_, err = h.Take(context.Background(), headgate.Check{Key: fmt.Sprint(i), Limit: limit, Cost: 1})
		}
		if err != nil && !errors.Is(err, headgate.ErrFull) {
			t.Fatal(err)
		}
		clock.Advance(time.Millisecond)
	}
	if got := h.take("0", limit, 1); got != 0 {
		t.Error("a flood of keys let pass who was denied")
	}
	if stats := h.Stats(); stats.Full < 2900 || stats.Evicted != 0 {
		t.Errorf("refused %d and evicted %d, want about 2976 and none", stats.Full, stats.Evicted)
	}
	_, err := h.TakeAll(context.Background(), []headgate.Check{{Key: "new a", Limit: limit, Cost: 1}, {Key: "new b", Limit: limit, Cost: 1}}, nil)
	if !errors.Is(err, headgate.ErrFull) {
		t.Errorf("TakeAll of new keys: got %v, want ErrFull", err)
	}
}

// A flood of new keys does not let a client that is being denied start again, though some of its decisions allow.
func TestAKeyAboveItsLimitIsNotEvicted(t *testing.T) {
	for _, text := range []string{"1000/s", "1000/s sliding-window"} {
		clock, all := hosts(t, 1, false, func(o *fleet.LedgerOptions) { o.MaxKeys = 1024 })
		h, limit := all[0], headgate.MustParseLimit(text)
		h.take("hot", limit, int(limit.Count)+1) // until it is denied
		admitted, step := 0, limit.Period/time.Duration(10*limit.Count)
		const asks = 20_000
		for i := range asks {
			clock.Advance(step)
			admitted += h.take("hot", limit, 1)
			h.take(fmt.Sprint(i), headgate.PerHour(3), 1)
		}
		if most := asks/10 + 1; admitted > most {
			t.Errorf("%s: %d admitted in %v, want at most %d", text, admitted, asks*step, most)
		}
		if h.Stats().Evicted == 0 {
			t.Errorf("%s: nothing was evicted, the test puts no pressure on memory", text)
		}
	}
}

func TestKeysThatAreAsGoodAsNewAreDropped(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 2, asks, nil)
		limits := []headgate.Limit{
			headgate.PerSecond(10), headgate.MustParseLimit("10/s fixed-window"), headgate.MustParseLimit("10/s sliding-window"),
			headgate.MustParseLimit("5 concurrent ttl 1s"),
		}
		for i := range 2000 {
			for _, h := range all {
				h.take(fmt.Sprint(i), limits[i%len(limits)], 1)
			}
		}
		shareAll(all...)
		for range 1000 {
			clock.Advance(500 * time.Millisecond)
			all[0].Changes(nil, 100)
			all[1].Changes(nil, 100)
		}
		for _, h := range all {
			if stats := h.Stats(); stats.Keys != 0 || stats.Waiting != 0 {
				t.Errorf("%s after some minutes: got %d keys, %d waiting, want none", h.Peer.Name, stats.Keys, stats.Waiting)
			}
		}
	})
}

func TestPeersOfAKeyAreBounded(t *testing.T) {
	clock, all := hosts(t, 1, false, func(o *fleet.LedgerOptions) { o.OnRefused = func(fleet.Peer, string) {} })
	h := all[0]
	clock.Advance(time.Minute)
	limit := headgate.Per(1_000_000, 300*24*time.Hour)
	key, err := h.KeyOf(headgate.Check{Key: "k", Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		from := fleet.Peer{Name: fmt.Sprint("peer ", i), Incarnation: uint64(i)}
		h.Apply(from, 10*time.Second, []tally.Tally{{Key: key, Limit: limit, Start: time.Second, Total: 1, Level: 1}})
		clock.Advance(time.Millisecond)
	}
	wantRemaining(t, "after 5000 peers with one unit each", "k", limit, 1_000_000-5000, h)
	stats := h.Stats()
	if stats.Peers > peers.MaxSlots || stats.PeersDropped < 4000 {
		t.Errorf("peers: got %d and %d crowded out, want at most %d and about 4745", stats.Peers, stats.PeersDropped, peers.MaxSlots)
	}
	if got := len(h.shardOf(&key).records[key].peers); got > MaxPeers {
		t.Errorf("peers of the key: got %d, want at most %d", got, MaxPeers)
	}
}

func TestAKeyTakesTheMemoryThatIsStated(t *testing.T) {
	racing.Skip(t, "the race detector takes memory")
	_, all := hosts(t, 2, false, nil)
	const keys = 100_000
	limit := headgate.PerHour(100)
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	used := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := used()
	for _, name := range names {
		all[0].take(name, limit, 1)
	}
	told := all[0].Changes(nil, 1)
	bytes := (used() - before) / keys
	t.Logf("a key takes %d bytes", bytes)
	if bytes > 420 {
		t.Errorf("a key takes %d bytes, want at most 420", bytes)
	}
	runtime.KeepAlive(names)
	runtime.KeepAlive(told)
	runtime.KeepAlive(all)
}

// Nodes of a network that delays, loses, repeats and reorders come to the same level, and no more passes than the limit
// and what may slip through.
func TestANetworkThatLosesAndRepeatsDoesNotDrift(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		for seed := range uint64(3) {
			rng := rand.New(rand.NewPCG(seed, 9))
			n := 2 + rng.IntN(5)
			clock, all := hosts(t, n, asks, nil)
			limit := headgate.Limit{Count: 50 + rng.Int64N(200), Period: time.Second, Burst: 10 + rng.Int64N(200)}
			if seed%3 == 2 {
				limit.Algorithm = headgate.GCRA
			}
			type letter struct {
				to     *host
				from   fleet.Peer
				uptime time.Duration
				tally  tally.Tally
				due    time.Duration
			}
			var way []letter
			j := &fleettest.Meter{Burst: float64(limit.Capacity()), Rate: float64(limit.Count)}
			step, length := 5*time.Millisecond, 20*time.Second
			if racing.Enabled { // it runs in one goroutine
				length = 8 * time.Second
			}
			for at := time.Duration(0); at < length; at += step {
				j.Advance(at)
				quiet := at > length-5*time.Second
				for _, h := range all {
					if !quiet && rng.IntN(3) == 0 {
						j.Pass(h.take("k", limit, rng.IntN(12)))
					}
					if at/step%5 != 0 {
						continue
					}
					h.take("other", limit, 1)
					for _, sent := range h.Changes(nil, 8) {
						for _, to := range all {
							if to == h {
								continue
							}
							for range 1 + rng.IntN(2) {
								if rng.IntN(10) < 2 && !quiet {
									continue // lost
								}
								way = append(way, letter{to, h.Peer, h.Uptime(), sent, at + time.Duration(rng.IntN(60))*time.Millisecond})
							}
						}
						if !quiet && rng.IntN(4) == 0 {
							h.Resend([]tally.Tally{sent})
						}
					}
				}
				rest := way[:0]
				for _, l := range way {
					if l.due <= at {
						l.to.Apply(l.from, l.uptime, []tally.Tally{l.tally})
					} else {
						rest = append(rest, l)
					}
				}
				way = rest
				clock.Advance(step)
			}
			most := j.Burst + j.Rate*length.Seconds()
			// Lost tallies are told again with the next change: half a second is more than enough for S.
			if bound := float64(n-1) * (j.Burst + j.Rate/2); j.Over > bound || float64(j.Passed) > most+bound {
				t.Errorf("seed %d, %d nodes, %v: passed %d and %.0f over at most, want at most %.0f and %.0f", seed, n, limit, j.Passed, j.Over, most+bound, bound)
			}
			if float64(j.Passed) < 0.8*most*(length-5*time.Second).Seconds()/length.Seconds() {
				t.Errorf("seed %d, %d nodes, %v: passed %d, want most of %.0f", seed, n, limit, j.Passed, most)
			}
			wantRemaining(t, fmt.Sprintf("seed %d, after a rest", seed), "k", limit, limit.Capacity(), all...)
		}
	})
}
