//go:build unix

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/server/fleet/lease"
)

// newRedisLease returns a lease of a store in Redis behind a guard, as a node has it.
func newRedisLease(ctx context.Context, url string, nodes int, deadline time.Duration) (l *lease.Limiter, end func(), err error) {
	opening, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	store, err := redisstore.Open(opening, url, redisstore.Options{Secret: leaseSecret, DialTimeout: 20 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	g, err := guard.New(store, guard.Options{Deadline: deadline, OnEvent: func(guard.Event) {}})
	if err != nil {
		return nil, nil, err
	}
	if l, err = lease.New(g, lease.Options{Members: nodesOf(nodes)}); err != nil {
		return nil, nil, err
	}
	return l, func() {
		_ = l.Close(context.Background())
		_ = g.Close()
		_ = store.Close()
	}, nil
}

type nodesOf int

func (n nodesOf) Live() int  { return int(n) }
func (n nodesOf) Known() int { return int(n) }

// A killing is a fleet of node processes that are killed, stopped and replaced.
type killing struct {
	url, limit string
	nodes      int
	keys       int
	times      float64 // the limit of all keys is offered
	lasting    time.Duration
	every      time.Duration // something happens
}

// run has it happen, and returns which part of the limit was used. More than the limit fails the test.
func (k *killing) run(t *testing.T) (used float64) {
	t.Helper()
	limit := headgate.MustParseLimit(k.limit)
	rate := float64(limit.Count) / limit.Period.Seconds()
	path := filepath.Join(t.TempDir(), "records")
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	node := func() *nodeProcess {
		return startLeaseNode(t, leaseNode{
			URL: k.url, Limit: k.limit, Records: path, Nodes: k.nodes, Keys: k.keys,
			Offered: k.times * rate * float64(k.keys) / float64(k.nodes), Seed: rng.Uint64(),
		})
	}
	nodes := make([]*nodeProcess, k.nodes)
	for i := range nodes {
		nodes[i] = node()
	}
	kills, stops := 0, 0
	for end := time.Now().Add(k.lasting); ; {
		pause := k.every/2 + time.Duration(rng.Int64N(int64(k.every))) // so that it is not always in step with windows
		if time.Until(end) < pause {
			time.Sleep(time.Until(end))
			break
		}
		time.Sleep(pause)
		victim := rng.IntN(len(nodes))
		if rng.IntN(3) == 0 {
			nodes[victim].signal(t, syscall.SIGSTOP)
			time.Sleep(time.Duration(rng.Int64N(int64(k.every / 2)))) // in which leases expire, or do not
			nodes[victim].signal(t, syscall.SIGCONT)
			stops++
			continue
		}
		nodes[victim].kill()
		nodes[victim] = node()
		kills++
	}
	for _, n := range nodes {
		n.kill()
	}
	return k.judge(t, readRecords(t, path), limit, kills, stops)
}

func (k *killing) judge(t *testing.T, list []record, limit headgate.Limit, kills, stops int) float64 {
	t.Helper()
	if len(list) == 0 {
		t.Fatal("nothing passed")
	}
	start, end := list[0].From, list[0].To
	for _, r := range list {
		start, end = min(start, r.From), max(end, r.To)
	}
	byKey := make(map[int64]*lease.Passages)
	for _, r := range list {
		p := byKey[r.Key]
		if p == nil {
			p = &lease.Passages{}
			byKey[r.Key] = p
		}
		p.Add(time.Duration(r.From-start), time.Duration(r.To-start), 1)
	}
	for key, p := range byKey {
		if err := p.Over(limit, lease.DefaultTTL, time.Unix(0, start)); err != nil {
			t.Errorf("key %d: %v", key, err)
		}
	}
	elapsed := time.Duration(end - start)
	passed, most := len(list), float64(limit.Capacity())+float64(limit.Count)*float64(elapsed)/float64(limit.Period)
	if limit.Algorithm == headgate.FixedWindow { // whole windows only
		first, last := start/int64(limit.Period)+1, end/int64(limit.Period)
		most = float64(limit.Count * (last - first))
		for _, r := range list {
			if in := r.To / int64(limit.Period); in < first || in >= last {
				passed--
			}
		}
	}
	most *= float64(k.keys)
	if k.keys > 1 && limit.Algorithm != headgate.FixedWindow { // whole units only, of buckets that nobody takes from before they are first asked for
		most = 0
		for _, p := range byKey {
			most += math.Floor(float64(limit.Capacity()) + float64(limit.Count)*float64(elapsed-p.First())/float64(limit.Period))
		}
	}
	used := float64(passed) / most
	t.Logf("%s, %d keys, %v: %d passed, %.2f %% of the limit; %d nodes killed and replaced, %d stopped for a while",
		limit, k.keys, elapsed.Round(time.Millisecond), passed, 100*used, kills, stops)
	return used
}

func TestKilledNodeProcessesKeepTheLimitOnRedis(t *testing.T) {
	cluster := redistest.Cluster(t, redistest.ClusterOptions{NodeTimeout: 30 * time.Second})
	for _, k := range []killing{
		{limit: "500/s burst 200", keys: 1, times: 5},
		{limit: "500/s fixed-window", keys: 1, times: 5},
		{limit: "5/s burst 5", keys: 50, times: 5},
	} {
		t.Run(fmt.Sprintf("%s %d keys", k.limit, k.keys), func(t *testing.T) {
			k.url, k.nodes, k.lasting, k.every = cluster.URL(), 3, 2100*time.Millisecond, 400*time.Millisecond
			flush(t, cluster)
			k.run(t) // TestSoakLease checks how much of the limit is used, which depends on the machine
		})
	}
}

func flush(t *testing.T, cluster *redistest.ClusterSet) {
	t.Helper()
	for _, s := range cluster.Servers() {
		if _, err := s.Do("FLUSHALL"); err != nil && !strings.Contains(err.Error(), "READONLY") {
			t.Fatal(err)
		}
	}
}

// TestSoakLease is a minute of each: four nodes, ten times the limit, nodes killed and added.
func TestSoakLease(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("it takes minutes: set HEADGATE_SOAK=1")
	}
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	for _, k := range []killing{
		{limit: "1000/s", keys: 1, every: time.Hour}, // which is never
		{limit: "1000/s", keys: 1, every: time.Second},
		{limit: "1000/s fixed-window", keys: 1, every: time.Second},
		{limit: "1/s burst 5", keys: 10_000, every: time.Hour},
		{limit: "1/s burst 5", keys: 10_000, every: time.Second},
	} {
		t.Run(fmt.Sprintf("%s %d keys, every %v", k.limit, k.keys, k.every), func(t *testing.T) {
			flush(t, cluster)
			k.url, k.nodes, k.times, k.lasting = cluster.URL(), 4, 10, time.Minute
			least := 0.966
			if k.every > k.lasting {
				least = 0.99
			}
			if used := k.run(t); used < least {
				t.Errorf("%.2f %% of the limit used, want at least %.1f %%", 100*used, 100*least)
			}
		})
	}
}

func TestALeaseAndExactTakesShareOneCounterInRedis(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	l, end, err := newRedisLease(t.Context(), server.URL(), 1, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	store, err := redisstore.Open(t.Context(), server.URL(), redisstore.Options{Secret: leaseSecret, DialTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	for _, limit := range []string{"100/d", "100/d gcra", "100/d fixed-window", "100/d sliding-window"} {
		c := headgate.Check{Owner: "alice", Key: "alice/" + limit, Limit: headgate.MustParseLimit(limit), Cost: 1}
		var leased, exact int
		deadline := time.Now().Add(time.Minute)
		// Of what is handed back a moment of a unit has drained, so that the last one may be long in coming.
		for after := 0; after < 50 && time.Now().Before(deadline); {
			if leased+exact >= 99 {
				after++
			}
			for of, limiter := range map[*int]headgate.Limiter{&leased: l, &exact: store} {
				d, err := limiter.Take(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					*of++
				}
			}
		}
		if leased+exact < 99 || leased+exact > 100 || leased == 0 || exact == 0 {
			t.Errorf("%s: %d by lease and %d exact, want some of each and 100 in all", limit, leased, exact)
		}
	}
}

// With the server away what is held is used, then policies decide; when it is back, so are leases.
func TestALeaseOutlivesItsServer(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{Persist: true})
	l, end, err := newRedisLease(t.Context(), server.URL(), 1, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	c := headgate.Check{Key: "a", Limit: headgate.Per(100, 24*time.Hour), Cost: 1, OnFailure: headgate.Open}
	d, err := l.Take(t.Context(), c)
	if err != nil || !d.Allowed || d.Degraded {
		t.Fatalf("got %+v, %v, want it allowed", d, err)
	}
	server.Kill()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		if d, err = l.Take(t.Context(), c); err != nil {
			t.Fatalf("with the server away: %v", err)
		}
		if d.Degraded {
			break
		}
	}
	if !d.Degraded || !d.Allowed {
		t.Fatalf("with the server away: got %+v, want it allowed by policy", d)
	}
	if err := l.Give(t.Context(), c, d.Receipt); err != nil {
		t.Errorf("give back what the policy let pass: %v", err)
	}
	c.OnFailure = headgate.Closed
	if d, err := l.Take(t.Context(), c); err != nil || d.Allowed || !d.Degraded {
		t.Errorf("by another policy: got %+v, %v, want it denied", d, err)
	}
	server.Restart()
	for d.Degraded && time.Now().Before(deadline) {
		if d, err = l.Take(t.Context(), c); err != nil {
			t.Fatalf("with the server back: %v", err)
		}
	}
	if d.Degraded || !d.Allowed {
		t.Errorf("with the server back: got %+v, want it allowed by the store", d)
	}
	if err := l.Close(t.Context()); err != nil && !errors.Is(err, headgate.ErrClosed) {
		t.Error(err)
	}
}
