package sim

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
)

// TestForgottenClientsAreJudgedTheSame compares an oracle that drops drained clients all the time with one that keeps
// them.
func TestForgottenClientsAreJudgedTheSame(t *testing.T) {
	for _, text := range []string{"10/s", "30/2s fixed-window", "25/2s sliding-log"} {
		limits := []headgate.Limit{headgate.MustParseLimit(text), headgate.MustParseLimit("40/3s")}
		for n := range limits {
			keeps, err := newOracle(limits[:n+1], nil)
			if err != nil {
				t.Fatal(err)
			}
			forgets, err := newOracle(limits[:n+1], nil)
			if err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 2))
			now := int64(1_700_000_000_000_000)
			for range 20_000 {
				now += random.Int64N(20_000)
				client, allowed := random.Uint64N(20), random.IntN(3) > 0
				wrong, excess := keeps.judge(client, now, 1, allowed)
				forgets.sweep(now)
				if gotWrong, gotExcess := forgets.judge(client, now, 1, allowed); gotWrong != wrong || gotExcess != excess {
					t.Fatalf("%v at %d: got %v and excess %d, want %v and %d", limits[:n+1], now, gotWrong, gotExcess, wrong, excess)
				}
			}
			forgets.sweep(now + time.Minute.Microseconds())
			if got := forgets.all[0].size() + forgets.right[0].size() + forgets.due[0].size(); got != 0 {
				t.Errorf("%v: %d counters are left, want 0", limits[:n+1], got)
			}
		}
	}
}

// TestDrainedKeysOfRedisAreDroppedWithoutEffect compares a store that drops drained keys with one that keeps them.
func TestDrainedKeysOfRedisAreDroppedWithoutEffect(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	clock := func() time.Time { return now }
	keeps, drops := stepstore.New(clock), stepstore.New(clock)
	random := rand.New(rand.NewPCG(1, 2))
	keys := []string{"a", "b", "c"}
	limits := []headgate.Limit{headgate.MustParseLimit("10/s"), headgate.MustParseLimit("20/2s sliding-window")}
	for range 10_000 {
		now = now.Add(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
		limit := random.IntN(len(limits))
		c := headgate.Check{Key: keys[random.IntN(len(keys))] + limits[limit].String(), Limit: limits[limit], Cost: 1}
		want, err := keeps.Take(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		drops.DropNew()
		got, err := drops.Take(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("at %v: got %+v, want %+v", now, got, want)
		}
	}
	now = now.Add(time.Minute)
	drops.DropNew()
	if got := drops.Len(); got != 0 {
		t.Errorf("%d keys are left, want 0", got)
	}
}
