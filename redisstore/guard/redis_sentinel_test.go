package guard_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

// switching is how long after the new primary is one decisions must be exact again: sentinels are asked who it is every
// second, and when something fails. On a quiet machine it takes less than two.
const switching = 20 * time.Second

func TestSentinelFailoverCausesNoErrors(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t, redistest.SentinelOptions{})
	store := openStore(t, set.URL(), redisstore.Options{})
	g := newGuard(t, store, guard.Options{Deadline: patient})
	c := newCrowd(t, g, store, newAccounts(60), 32, 10*time.Millisecond)
	c.exhaust()
	lost := int64(0) // failovers, each of which may lose what was not replicated
	for _, fault := range []struct {
		what   string
		happen func()
	}{
		{"SENTINEL FAILOVER", func() { set.Failover() }},
		{"SIGKILL", func() { set.WaitForFailover(set.KillPrimary()) }},
	} {
		old := set.Primary()
		before, degradedBefore := c.asked.Load(), c.degraded(nil)
		began := time.Now()
		promoted := make(chan time.Duration, 1)
		go func() { promoted <- firstOther(set, old, began) }()
		fault.happen()
		lost++
		settled := time.Since(began)
		took := <-promoted
		calmed := max(0, c.awaitCalm(began))
		c.awaitServed(began, everybody)
		excess := c.wantAtMost(lost)
		t.Logf("%s: new primary %v after it, all follow it after %v, last degraded decision %v; %d asked, %d degraded, at most %d beyond burst + rate·t",
			fault.what, took, settled, calmed, c.asked.Load()-before, c.degraded(nil)-degradedBefore, excess)
		if most := took + switching; calmed > most {
			t.Errorf("%s: the last degraded decision came %v after it, want at most %v", fault.what, calmed, most)
		}
		if took == 0 {
			t.Errorf("%s: no other server became primary", fault.what)
		}
	}
	c.stop()
	c.wantAtMost(lost)
	if c.wantCounted() == 0 {
		t.Error("nothing was degraded: nobody asked for the dead primary")
	}
}

// firstOther returns how long after a time another server than the old primary says that it is primary, 0 if none does.
func firstOther(set *redistest.SentinelSet, old *redistest.Server, since time.Time) time.Duration {
	for time.Since(since) < 30*time.Second {
		for _, s := range set.Servers() {
			if s == old || !s.Running() {
				continue
			}
			reply, err := s.Do("ROLE")
			if list, ok := reply.([]any); err == nil && ok && list[0] == "master" {
				return time.Since(since)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0
}
