package guard_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

func TestPolicyDecidesUntilTheServerIsReachable(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	server.Kill()
	store := openStore(t, server.URL(), redisstore.Options{StartUnreachable: true})
	g := newGuard(t, store, guard.Options{Deadline: patient, Nodes: func() int { return 5 }})
	limit := headgate.MustParseLimit("50/d")
	by := func(p headgate.Policy, key string) headgate.Check {
		return headgate.Check{Key: fmt.Sprint(p, key), Limit: limit, Cost: 1, OnFailure: p}
	}
	const asked = 100
	for policy, want := range map[headgate.Policy]int{headgate.Open: asked, headgate.Closed: 0, headgate.Local: 10} {
		allowed := 0
		for range asked {
			d := mustTake(t, g, by(policy, "away"))
			if !d.Degraded {
				t.Fatalf("%v: %+v while the server is away, want it degraded", policy, d)
			}
			if d.Allowed {
				allowed++
			}
		}
		if allowed != want {
			t.Errorf("%v: %d of %d pass while the server is away, want %d", policy, allowed, asked, want)
		}
	}
	stats := g.Stats()
	if stats.Open != asked || stats.Closed != asked || stats.Local != asked {
		t.Errorf("%+v, want %d decisions by each policy", stats, asked)
	}

	server.Restart()
	await.NoError(t, "not so yet", func() error {
		if d := mustTake(t, g, headgate.Check{Key: "back", Limit: limit, Cost: 1}); d.Degraded {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	for policy := range headgate.Local + 1 {
		allowed := 0
		for range asked {
			d := mustTake(t, g, by(policy, "back"))
			if d.Degraded {
				t.Fatalf("%v: %+v while the server is there", policy, d)
			}
			if d.Allowed {
				allowed++
			}
		}
		if allowed != 50 {
			t.Errorf("%v: %d of %d pass, want 50", policy, allowed, asked)
		}
	}
}

// The secret of the keys is not known yet when the server hangs.
func TestServerThatHangsAtBootDegradesDecisions(t *testing.T) {
	testHangAtBoot(t, func(*histogram, time.Duration) {})
}

func TestSoakServerThatHangsAtBootDelaysNobody(t *testing.T) {
	soak(t)
	testHangAtBoot(t, func(times *histogram, late time.Duration) {
		// Callers wait for the one that loads the secret, so that late timers add up.
		if got, most := times.max(), guard.DefaultDeadline+slack+4*late; got > most {
			t.Errorf("the longest call took %v, want at most %v", got, most)
		}
		if got, most := times.at(0.9), guard.DefaultDeadline+slack+late; got > most {
			t.Errorf("p90 of a call is %v, want at most %v", got, most)
		}
	})
}

// testHangAtBoot passes how long calls took, and how late timers were.
func testHangAtBoot(t *testing.T, check func(times *histogram, late time.Duration)) {
	t.Helper()
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprint("before Open: ", before), func(t *testing.T) {
			server := redistest.Standalone(t, redistest.Options{})
			if before {
				server.Pause()
			}
			store := openStore(t, server.URL(), redisstore.Options{StartUnreachable: true, DialTimeout: 100 * time.Millisecond})
			if !before {
				server.Pause()
			}
			n := measureNoise(t, guard.DefaultDeadline)
			var group sync.WaitGroup
			var times histogram
			for range 8 { // guards, since each gives up after a few failures
				g := newGuard(t, store, guard.Options{})
				for i := range 8 {
					group.Go(func() {
						for range 20 {
							c := headgate.Check{Key: fmt.Sprint("client", i), Limit: headgate.PerSecond(10), Cost: 1}
							began := time.Now()
							d, err := g.Take(context.Background(), c)
							times.add(time.Since(began))
							if err != nil || !d.Degraded {
								t.Errorf("%+v, %v: want it degraded", d, err)
							}
							time.Sleep(2 * time.Millisecond)
						}
					})
				}
			}
			group.Wait()
			n.end()
			t.Logf("%v; timers were late by %v at most", &times, n.late.max())
			check(&times, n.late.max())
			server.Resume()
			g := newGuard(t, store, guard.Options{Deadline: patient})
			await.NoError(t, "not so yet", func() error {
				if d := mustTake(t, g, headgate.Check{Key: "back", Limit: headgate.PerSecond(10), Cost: 1}); d.Degraded {
					return fmt.Errorf("%+v", d)
				}
				return nil
			})
		})
	}
}
