package topology

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/redistest"
)

func testSlotsAreThoseOfRedis(t *testing.T, cluster *redistest.ClusterSet) {
	server := cluster.Servers()[0]
	for _, key := range []string{"", "foo", "123456789", "{user}.x", "a{b}c{d}", "{}x", "{", "a}b{c}", "x{y", "hg:{a_-}0123456789abcdefghijklb"} {
		want, err := server.Do("CLUSTER", "KEYSLOT", key)
		if err != nil {
			t.Fatal(err)
		}
		if got := int64(slotOf(key)); got != want {
			t.Errorf("%q: got %d, want %d", key, got, want)
		}
	}
}

func TestShardsAreNamed(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	if got := connect(t, server.URL(), Options{}).ShardOf("any"); got != server.Addr() {
		t.Errorf("standalone: got %q, want %q", got, server.Addr())
	}
	sentinels := redistest.Sentinel(t, redistest.SentinelOptions{})
	if got := connect(t, sentinels.URL(), Options{}).ShardOf("any"); got != redistest.PrimaryName {
		t.Errorf("sentinel: got %q, want %q", got, redistest.PrimaryName)
	}
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	c := connect(t, cluster.URL(), Options{})
	for i := range 20 {
		key := fmt.Sprint("key", i)
		if got, want := c.ShardOf(key), cluster.PrimaryOf(key).Addr(); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestClusterFailoverIsFollowed(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, redistest.ClusterOptions{Server: redistest.Options{Config: []string{"cluster-require-full-coverage no"}}})
	c := connect(t, cluster.URL(), Options{})
	const key = "alice"
	shard := c.ShardOf(key)
	var old *redistest.Server
	for _, server := range cluster.Servers() {
		if server.Addr() == shard {
			old = server
		}
	}
	callers := newCrowd(16, func(ctx context.Context, _ int) error { return call(ctx, c, key) })
	others := newCrowdWithin(patience, 16, func(ctx context.Context, i int) error {
		name := fmt.Sprint("client", i)
		if c.ShardOf(name) == c.ShardOf(key) {
			return nil
		}
		return call(ctx, c, name)
	})
	t.Run("by request", func(t *testing.T) {
		callers.failures()
		visited := follow(c, key)
		cluster.Failover(cluster.ReplicaOf(old))
		began := time.Now().UnixNano()
		took := await.NoError(t, "not so yet", func() error {
			if callers.latestGood.Load() < began {
				return errors.New("no call has succeeded")
			}
			return nil
		})
		t.Logf("works %v after; %d calls failed: %s", took, len(callers.failures()), callers.why())
		await.NoError(t, "not so yet", func() error {
			if now := c.ShardOf(key); now == shard {
				return fmt.Errorf("the shard is %s still", now)
			}
			return nil
		})
		if list := visited(); len(list) > 2 {
			t.Errorf("the shard was at %v: want that it moves once", list)
		}
	})
	t.Run("by death", func(t *testing.T) {
		now := c.ShardOf(key)
		var primary *redistest.Server
		for _, server := range cluster.Servers() {
			if server.Addr() == now {
				primary = server
			}
		}
		others.failures()
		primary.Kill()
		await.NoError(t, "not so yet", func() error {
			s, err := c.Server(now)
			if err == nil && s.Connected() {
				err = errors.New("a dead server counts as connected")
			}
			return err
		})
		await.NoError(t, "not so yet", func() error {
			if _, err := primary.Do("PING"); err == nil {
				t.Fatal("it is not dead")
			}
			if serverOf(cluster, now) == nil {
				return errors.New("the cluster has no new primary")
			}
			return nil
		})
		began := time.Now().UnixNano()
		took := await.NoError(t, "not so yet", func() error {
			if callers.latestGood.Load() < began {
				return errors.New("no call has succeeded")
			}
			return nil
		})
		t.Logf("works %v after the cluster has a new primary", took)
		if took > soon {
			t.Errorf("works %v after the cluster has a new primary; want %v at most", took, soon)
		}
		if failed, calls := len(others.failures()), others.calls.Load(); failed > 0 {
			t.Logf("%d of %d calls to other shards failed: %s", failed, calls, others.why())
			if int64(failed)*50 > calls {
				t.Error("other shards suffer")
			}
		}
	})
	callers.end()
	others.end()
}

// follow reads the map until the returned function is called, which returns the shards that a key had meanwhile.
func follow(c *Client, key string) (visited func() []string) {
	var list []string
	done, end := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			at := c.ShardOf(key)
			if len(list) == 0 || list[len(list)-1] != at {
				list = append(list, at)
			}
			select {
			case <-end:
				return
			default:
				_ = c.readMap(context.Background(), soon) // a failed read leaves the map unchanged
			}
		}
	}()
	return func() []string {
		close(end)
		<-done
		return list
	}
}

// serverOf returns a server that has replaced another as primary, or nil.
func serverOf(c *redistest.ClusterSet, old string) *redistest.Server {
	primaries := 0
	var last *redistest.Server
	for _, s := range c.Servers() {
		if s.Addr() == old || !s.Running() {
			continue
		}
		if s.Info("replication")["role"] == "master" {
			primaries++
			last = s
		}
	}
	if primaries < 3 {
		return nil
	}
	return last
}

func TestHungShardDoesNotAffectOthers(t *testing.T) {
	cluster := redistest.Cluster(t, redistest.ClusterOptions{
		Server: redistest.Options{Config: []string{"cluster-require-full-coverage no"}}, NodeTimeout: time.Minute,
	})
	c := connect(t, cluster.URL(), Options{})
	hung := cluster.Servers()[0]
	clients := make(map[bool][]string) // of the shard that will hang, and of others
	for i := 0; len(clients[true]) < 16 || len(clients[false]) < 16; i++ {
		name := fmt.Sprint("client", i)
		ill := c.ShardOf(name) == hung.Addr()
		clients[ill] = append(clients[ill], name)
	}
	hung.Pause()
	ill := newCrowd(16, func(ctx context.Context, i int) error { return call(ctx, c, clients[true][i]) })
	defer ill.end()
	await.NoError(t, "the hung shard", func() error {
		s, err := c.Server(hung.Addr())
		if err == nil && s.Connected() {
			err = errors.New("it does not count as hung")
		}
		return err
	})
	for i := range 16 {
		ctx := within(t, unhurried)
		if err := call(ctx, c, clients[true][i]); !errors.Is(err, ErrUnreachable) || ctx.Err() != nil {
			t.Errorf("a call of the hung shard: %v, want %v before its deadline", err, ErrUnreachable)
		}
		if err := call(within(t, unhurried), c, clients[false][i]); err != nil {
			t.Errorf("a call of another shard: %v", err)
		}
	}
	hung.Resume()
}

func TestSentinelFailoverIsFollowed(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]bool{"by request": false, "by death": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := redistest.Sentinel(t, redistest.SentinelOptions{})
			c := connect(t, set.URL(), Options{})
			callers := newCrowd(16, func(ctx context.Context, i int) error { return call(ctx, c, fmt.Sprint("client", i)) })
			defer callers.end()
			old := set.Primary()
			if kill {
				old.Kill()
				set.WaitForFailover(old)
			} else {
				set.Failover()
			}
			began := time.Now().UnixNano()
			took := await.NoError(t, "not so yet", func() error {
				if callers.latestGood.Load() < began {
					return errors.New("no call has succeeded")
				}
				return nil
			})
			t.Logf("works %v after; %d of %d calls failed: %s", took, len(callers.failures()), callers.calls.Load(), callers.why())
			if took > soon {
				t.Errorf("works %v after; want %v at most", took, soon)
			}
			if got := c.current.Load().Shards[0].Primary.Addr(); got == old.Addr() {
				t.Errorf("the primary is %s still", got)
			}
		})
	}
}

// A sentinel that was cut off with the old primary is ignored after another one has reported a failover.
func TestSentinelThatMissedAFailoverIsIgnored(t *testing.T) {
	t.Parallel()
	tells := func(primary *redistest.Fake, epoch string) *redistest.Fake {
		host, port, _ := net.SplitHostPort(primary.Addr())
		return redistest.NewFake(t, map[string]string{
			"SENTINEL GET-MASTER-ADDR-BY-NAME": fmt.Sprintf("*2\r\n+%s\r\n+%s\r\n", host, port),
			"SENTINEL REPLICAS":                "*0\r\n",
			"SENTINEL MASTER":                  "*2\r\n+config-epoch\r\n+" + epoch + "\r\n",
		})
	}
	before, after := redistest.NewFake(t, nil), redistest.NewFake(t, nil)
	behind, ahead := tells(before, "4"), tells(after, "5")
	c := connect(t, "redis-sentinel://"+behind.Addr()+","+ahead.Addr()+"/m", Options{Logger: (&logbook.Book{}).Logger()})
	for range 40 {
		if got := c.current.Load().Shards[0].Primary.addr; got != after.Addr() {
			t.Fatalf("the primary is %s, want %s: only one of the sentinels has heard of the failover", got, after.Addr())
		}
		if err := c.readMap(within(t, unhurried), unhurried); err != nil {
			t.Fatal(err)
		}
	}
	// Both learn of the next failover.
	for _, sentinel := range []*redistest.Fake{behind, ahead} {
		host, port, _ := net.SplitHostPort(before.Addr())
		sentinel.Set("SENTINEL GET-MASTER-ADDR-BY-NAME", fmt.Sprintf("*2\r\n+%s\r\n+%s\r\n", host, port))
		sentinel.Set("SENTINEL MASTER", "*2\r\n+config-epoch\r\n+6\r\n")
	}
	await.NoError(t, "not so yet", func() error {
		if got := c.current.Load().Shards[0].Primary.addr; got != before.Addr() {
			return fmt.Errorf("the primary is %s, want %s", got, before.Addr())
		}
		return nil
	})
}

// A name or load balancer may lead to another server after a failover, while the old primary is a replica and keeps its
// connections.
func TestDemotedServerIsLeft(t *testing.T) {
	t.Parallel()
	primary := redistest.Standalone(t, redistest.Options{})
	proxy := redistest.NewProxy(t, primary.Addr())
	c := connect(t, "redis://"+proxy.Addr(), Options{})
	if _, err := primary.Do("REPLICAOF", "127.0.0.1", "1"); err != nil {
		t.Fatal(err)
	}
	before := c.seeds[0].counts.connects.Load()
	await.NoError(t, "not so yet", func() error {
		_ = call(within(t, time.Second), c, "alice")
		if c.seeds[0].counts.connects.Load() == before {
			return errors.New("not connected again")
		}
		return nil
	})
}

func testServersThatLeaveAreForgotten(t *testing.T, cluster *redistest.ClusterSet) {
	first := cluster.Servers()[0]
	c := connect(t, "redis-cluster://"+first.Addr(), Options{})
	m := c.current.Load()
	i := 0
	for m.Shards[i].Name == first.Addr() {
		i++
	}
	gone := m.Shards[i].Primary
	c.mu.Lock()
	gone.lastUsed = time.Now().Add(-2 * unusedServerTTL)
	c.mu.Unlock()
	less := &Map{owners: m.owners, epoch: m.epoch}
	for j, s := range m.Shards {
		if j == i {
			s = m.Shards[(i+1)%len(m.Shards)]
		}
		less.Shards = append(less.Shards, s)
	}
	c.install(less)
	await.NoError(t, "not so yet", func() error {
		err := gone.Do(within(t, time.Second), c.Builder().Ping().Build()).Error()
		if !errors.Is(err, ErrUnreachable) || errors.Is(err, headgate.ErrClosed) {
			return fmt.Errorf("got %w, want ErrUnreachable", err)
		}
		return nil
	})
	// The next read finds it again.
	await.NoError(t, "not so yet", func() error {
		for i := range 30 {
			if err := call(within(t, time.Second), c, fmt.Sprint("client", i)); err != nil {
				return err
			}
		}
		if m := c.current.Load(); slices.Contains(m.owners, -1) || len(m.Shards) != 3 {
			return errors.New("not found again")
		}
		return nil
	})
}

func TestMapsAreCompared(t *testing.T) {
	a, b := &Server{}, &Server{}
	one, two := standaloneMap(a), standaloneMap(b)
	if !one.same(one) || one.same(two) || one.same(nil) {
		t.Error("lone servers")
	}
	half := func(cut int) *Map {
		m := &Map{Shards: []Shard{{Primary: a}, {Primary: b}}, owners: make([]int16, slots)}
		for i := cut; i < slots; i++ {
			m.owners[i] = 1
		}
		return m
	}
	if !half(8000).same(half(8000)) || half(8000).same(half(8001)) || half(8000).same(one) {
		t.Error("clusters")
	}
}
