package guard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

// limitsOf returns three limits of one client, which are decided as one.
func limitsOf(client string) []headgate.Check {
	return []headgate.Check{
		{Owner: client, Key: client + "/second", Limit: headgate.MustParseLimit("20/s burst 20"), Cost: 1},
		{Owner: client, Key: client + "/hour", Limit: headgate.MustParseLimit("10000/h sliding-window"), Cost: 1},
		{Owner: client, Key: client + "/day", Limit: headgate.MustParseLimit("100/d"), Cost: 1},
	}
}

// aloneOf returns a limit of the same client, in the same slot, that is decided alone.
func aloneOf(client, name, limit string) headgate.Check {
	return headgate.Check{Owner: client, Key: client + "/" + name, Limit: headgate.MustParseLimit(limit), Cost: 1}
}

// keysOf returns the keys of a cluster that begin with the store's prefix, without the one for the secret, that are
// kept for so long at least. Others may be gone when they are spoken of.
func keysOf(t testing.TB, cluster *redistest.ClusterSet, least time.Duration) []string {
	t.Helper()
	var keys []string
	for _, s := range primariesOf(cluster) {
		reply, err := s.Do("KEYS", redisstore.DefaultPrefix+"{*")
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range reply.([]any) {
			key := fmt.Sprint(found)
			left, err := s.Do("PTTL", key)
			if err != nil {
				t.Fatal(err)
			}
			if left.(int64) >= least.Milliseconds() {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// A slot that moves key by key while it is asked for, there and back. Now and then one of the client's three keys is at
// the new server and the others are at the old one.
func TestMovingSlotIsFollowedExactly(t *testing.T) {
	t.Parallel()
	cluster := clusterWith(t, "no", unhurried)
	store := openStore(t, cluster.URL(), redisstore.Options{HangTimeout: patient})
	g := newGuard(t, store, guard.Options{Deadline: patient})
	const client = "moving"
	if _, err := store.TakeAll(t.Context(), limitsOf(client), nil); err != nil {
		t.Fatal(err)
	}
	keys := keysOf(t, cluster, time.Minute)
	if len(keys) != 2 {
		t.Fatalf("keys %q, want those of the hour and the day", keys)
	}
	slot := redistest.SlotOf(keys[0])
	from := cluster.PrimaryOfSlot(slot)
	to := cluster.Servers()[0]
	if from == to {
		to = cluster.Servers()[1]
	}
	moving := newAccount(limitsOf(client)...)
	accounts := append(newAccounts(20), moving)
	for i := range 8 {
		accounts = append(accounts, newAccount(aloneOf(client, fmt.Sprint("alone", i), variety[i%len(variety)])))
	}
	c := newCrowd(t, g, store, accounts, 24, 10*time.Millisecond)
	moves := 0
	for deadline := time.Now().Add(2 * time.Second); moves < 6 || time.Now().Before(deadline); moves++ {
		m := cluster.BeginMove(slot, to)
		for m.MoveKeys(1) > 0 {
			time.Sleep(2 * time.Millisecond)
		}
		m.Finish()
		from, to = to, from
	}
	time.Sleep(100 * time.Millisecond)
	c.stop()
	excess := c.wantAtMost(0)
	degraded := c.wantCounted()
	t.Logf("%d moves, %d asked, %d taken, %d degraded, at most %d beyond burst + rate·t", moves, c.asked.Load(), c.taken(), degraded, excess)
	if degraded > 0 {
		t.Errorf("%d decisions are degraded", degraded)
	}
	c.wantMost(func(a *account) bool { return len(a.checks) == 1 })
	if n := moving.taken[0].Load(); n < 5 {
		t.Errorf("the client with three limits got %d, want some", n)
	}
	if redirected(t, store) == 0 {
		t.Error("nobody was sent from one server to another")
	}
}

// redirected returns how many calls servers have sent on or back.
func redirected(t testing.TB, s *redisstore.Store) int64 {
	t.Helper()
	health, err := s.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	for _, h := range health {
		n += h.Redirects + h.Retries
	}
	return n
}

// A slot that is held half way: of the three keys of one client one is at the new server, and another client has none
// yet. No server can decide either in one step then.
func TestHalfMovedSlotDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	cluster := clusterWith(t, "no", unhurried)
	store := openStore(t, cluster.URL(), redisstore.Options{})
	g := newGuard(t, store, guard.Options{Deadline: patient})
	const client = "halfway"
	if _, err := store.TakeAll(t.Context(), limitsOf(client), nil); err != nil {
		t.Fatal(err)
	}
	keys := keysOf(t, cluster, time.Minute)
	slot := redistest.SlotOf(keys[0])
	to := cluster.Servers()[0]
	if cluster.PrimaryOfSlot(slot) == to {
		to = cluster.Servers()[1]
	}
	fresh := limitsOf(client)
	for i := range fresh {
		fresh[i].Key += "/new"
	}
	// Others of the same slot, of the same server, and of other servers.
	accounts := newAccounts(30)
	for i := range 8 {
		accounts = append(accounts, newAccount(aloneOf(client, fmt.Sprint("alone", i), variety[i%len(variety)])))
	}
	alone := newCrowd(t, g, store, accounts, 4, 10*time.Millisecond)
	m := cluster.BeginMove(slot, to)
	m.MoveKey(keys[0])
	split := newCrowd(t, g, store, []*account{newAccount(limitsOf(client)...), newAccount(fresh...)}, 12, 10*time.Millisecond)
	time.Sleep(1500 * time.Millisecond)
	held, stats := split.degraded(nil), g.Stats()
	m.Finish()
	finished := time.Now()
	calmed := split.awaitCalm(finished)
	split.stop()
	alone.stop()
	t.Logf("while the slot was held: %d of %d decisions of the clients with three limits degraded, %d calls, %d failures; last degraded %v after that; %d of others degraded",
		held, 3*split.asked.Load(), stats.Calls, stats.Failures, calmed, alone.degraded(nil))
	split.wantAtMost(0)
	alone.wantAtMost(0)
	if n := alone.degraded(nil); n > 0 {
		t.Errorf("%d decisions about keys that are alone are degraded", n)
	}
	if held > 0 {
		t.Errorf("%d decisions about keys that are split are degraded", held)
	}
	if seen := split.degraded(nil) + alone.degraded(nil); g.Stats().Open != seen {
		t.Errorf("the guard counted %d degraded decisions, the callers %d", g.Stats().Open, seen)
	}
}
