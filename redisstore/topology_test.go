package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/attempts"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/redistest"
)

func testSlotsAreThoseOfRedis(t *testing.T, cluster *redistest.ClusterSet) {
	server := cluster.Servers()[0]
	var c connection
	for _, key := range []string{"", "foo", "123456789", "{user}.x", "a{b}c{d}", "{}x", "{", "a}b{c}", "x{y", "hg:{a_-}0123456789abcdefghijklb"} {
		want, err := server.Do("CLUSTER", "KEYSLOT", key)
		if err != nil {
			t.Fatal(err)
		}
		if got := int64(c.slotOf(key)); got != want {
			t.Errorf("%q: got %d, want %d", key, got, want)
		}
	}
}

func TestShardsAreNamed(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	if got := open(t, server.URL(), Options{}).conn.shardOf(7); got != server.Addr() {
		t.Errorf("standalone: got %q, want %q", got, server.Addr())
	}
	sentinels := redistest.Sentinel(t, redistest.SentinelOptions{})
	if got := open(t, sentinels.URL(), Options{}).conn.shardOf(7); got != redistest.PrimaryName {
		t.Errorf("sentinel: got %q, want %q", got, redistest.PrimaryName)
	}
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	c := open(t, cluster.URL(), Options{}).conn
	for slot := 0; slot < redistest.Slots; slot += 777 {
		if got, want := c.shardOf(uint16(slot)), cluster.PrimaryOfSlot(slot).Addr(); got != want {
			t.Errorf("slot %d: got %q, want %q", slot, got, want)
		}
	}
}

func TestClusterFailoverIsFollowed(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, redistest.ClusterOptions{Server: redistest.Options{Config: []string{"cluster-require-full-coverage no"}}})
	s := open(t, cluster.URL(), Options{Secret: testSecret})
	const key = "alice"
	shard := s.Shard(headgate.Check{Key: key, Limit: headgate.PerSecond(1)})
	var old *redistest.Server
	for _, server := range cluster.Servers() {
		if server.Addr() == shard {
			old = server
		}
	}
	c := newCrowd(16, func(ctx context.Context, _ int) error { return take(ctx, s, key) })
	others := newCrowdWithin(patience, 16, func(ctx context.Context, i int) error {
		name := fmt.Sprint("client", i)
		if s.Shard(headgate.Check{Key: name, Limit: headgate.PerSecond(1)}) == s.Shard(headgate.Check{Key: key, Limit: headgate.PerSecond(1)}) {
			return nil
		}
		return take(ctx, s, name)
	})
	t.Run("by request", func(t *testing.T) {
		c.failures()
		visited := follow(s, key)
		cluster.Failover(cluster.ReplicaOf(old))
		began := time.Now().UnixNano()
		took := await.NoError(t, "not so yet", func() error {
			if c.latestGood.Load() < began {
				return errors.New("no call has succeeded")
			}
			return nil
		})
		t.Logf("works %v after; %d calls failed: %s", took, len(c.failures()), c.why())
		await.NoError(t, "not so yet", func() error {
			if now := s.Shard(headgate.Check{Key: key, Limit: headgate.PerSecond(1)}); now == shard {
				return fmt.Errorf("the shard is %s still", now)
			}
			return nil
		})
		if err := s.Probe(within(t, unhurried), shard); err != nil {
			t.Errorf("Probe of a shard that is no more: %v", err)
		}
		if list := visited(); len(list) > 2 {
			t.Errorf("the shard was at %v: want that it moves once", list)
		}
	})
	t.Run("by death", func(t *testing.T) {
		now := s.Shard(headgate.Check{Key: key, Limit: headgate.PerSecond(1)})
		var primary *redistest.Server
		for _, server := range cluster.Servers() {
			if server.Addr() == now {
				primary = server
			}
		}
		others.failures()
		primary.Kill()
		await.NoError(t, "not so yet", func() error {
			if err := s.Probe(within(t, time.Second), now); err == nil {
				return errors.New("Probe of a dead server is nil")
			}
			return nil
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
			if c.latestGood.Load() < began {
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
	c.end()
	others.end()
}

// follow reads the map again and again until the function is called that it returns, which tells where a key was all the while.
func follow(s *Store, key string) (visited func() []string) {
	var list []string
	done, end := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			at := s.Shard(headgate.Check{Key: key, Limit: headgate.PerSecond(1)})
			if len(list) == 0 || list[len(list)-1] != at {
				list = append(list, at)
			}
			select {
			case <-end:
				return
			default:
				_ = s.conn.readMap(context.Background(), soon) // one that fails leaves the map as it is
			}
		}
	}()
	return func() []string {
		close(end)
		<-done
		return list
	}
}

// serverOf returns a server that has taken the place of another, or nil.
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

func TestOneHungShardLeavesTheOthersAlone(t *testing.T) {
	cluster := redistest.Cluster(t, redistest.ClusterOptions{
		Server: redistest.Options{Config: []string{"cluster-require-full-coverage no"}}, NodeTimeout: time.Minute,
	})
	s := open(t, cluster.URL(), Options{Secret: testSecret})
	hung := cluster.Servers()[0]
	clients := make(map[bool][]string) // of the shard that will hang, and of others
	for i := 0; len(clients[true]) < 16 || len(clients[false]) < 16; i++ {
		name := fmt.Sprint("client", i)
		ill := s.Shard(headgate.Check{Key: name, Limit: headgate.PerSecond(1)}) == hung.Addr()
		clients[ill] = append(clients[ill], name)
	}
	ill := newCrowd(16, func(ctx context.Context, i int) error { return take(ctx, s, clients[true][i]) })
	defer ill.end()
	well := newCrowdWithin(patience, 16, func(ctx context.Context, i int) error { return take(ctx, s, clients[false][i]) })
	defer well.end()
	// watch returns what share of the others' calls fail in a while, in percent.
	watch := func() int64 {
		well.failures()
		calls := well.calls.Load()
		time.Sleep(time.Second)
		return int64(len(well.failures())) * 100 / max(1, well.calls.Load()-calls)
	}
	before := watch()
	hung.Pause()
	await.NoError(t, "not so yet", func() error {
		n, err := s.conn.node(hung.Addr())
		if err == nil && n.up() {
			err = errors.New("it does not count as hung")
		}
		return err
	})
	attempts.OneOf(t, 10, func() error {
		ill.failures()
		during := watch()
		times := ill.failures()
		t.Logf("at the hung shard %d failed, median %v, p99.9 %v; at others %d %% failed before, %d %% while it hung: %s",
			len(times), permille(times, 500), permille(times, 999), before, during, well.why())
		if len(times) == 0 || permille(times, 500) > crowdDeadline/2 {
			return fmt.Errorf("at the hung shard %d failed, after %v as a rule; want at once", len(times), permille(times, 500))
		}
		if during > before+10 {
			return fmt.Errorf("at other shards %d %% failed while one hung, %d %% before", during, before)
		}
		return nil
	})
	// Of a key in two parts the one that is elsewhere is asked.
	split := headgate.Check{Limit: headgate.PerHour(1000), Cost: 1, Split: 2}
	at := func(part int) string {
		return s.conn.shardOf(s.conn.slotOf(s.keys.Load().key("", split.Key, part)))
	}
	for i := 0; split.Key == "" || at(0) != hung.Addr() || at(1) == hung.Addr(); i++ {
		split.Key = fmt.Sprint("split", i)
	}
	for range 20 {
		mustTake(t, s, split)
	}
	hung.Resume()
}

func TestSentinelFailoverIsFollowed(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]bool{"by request": false, "by death": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := redistest.Sentinel(t, redistest.SentinelOptions{})
			s := open(t, set.URL(), Options{Secret: testSecret})
			c := newCrowd(16, func(ctx context.Context, i int) error { return take(ctx, s, fmt.Sprint("client", i)) })
			defer c.end()
			old := set.Primary()
			if kill {
				old.Kill()
				set.WaitForFailover(old)
			} else {
				set.Failover()
			}
			began := time.Now().UnixNano()
			took := await.NoError(t, "not so yet", func() error {
				if c.latestGood.Load() < began {
					return errors.New("no call has succeeded")
				}
				return nil
			})
			t.Logf("works %v after; %d of %d calls failed: %s", took, len(c.failures()), c.calls.Load(), c.why())
			if took > soon {
				t.Errorf("works %v after; want %v at most", took, soon)
			}
			if got := s.conn.topology.Load().shards[0].primary.addr; got == old.Addr() {
				t.Errorf("the primary is %s still", got)
			}
			if err := s.Probe(within(t, unhurried), redistest.PrimaryName); err != nil {
				t.Errorf("Probe: %v", err)
			}
		})
	}
}

// A sentinel that was cut off from the others, together with the old primary, is not believed again when another has told of a
// failover.
func TestASentinelThatMissedAFailoverIsNotBelieved(t *testing.T) {
	t.Parallel()
	tells := func(primary *weirdServer, epoch string) *weirdServer {
		host, port, _ := net.SplitHostPort(primary.addr)
		return newWeirdServer(t, map[string]string{
			"SENTINEL GET-MASTER-ADDR-BY-NAME": fmt.Sprintf("*2\r\n+%s\r\n+%s\r\n", host, port),
			"SENTINEL REPLICAS":                "*0\r\n",
			"SENTINEL MASTER":                  "*2\r\n+config-epoch\r\n+" + epoch + "\r\n",
		})
	}
	before, after := newWeirdServer(t, nil), newWeirdServer(t, nil)
	behind, ahead := tells(before, "4"), tells(after, "5")
	s := open(t, "redis-sentinel://"+behind.addr+","+ahead.addr+"/m", Options{Secret: testSecret, Logger: (&logbook.Book{}).Logger()})
	for range 40 {
		if got := s.conn.topology.Load().shards[0].primary.addr; got != after.addr {
			t.Fatalf("the primary is %s, want %s: only one of the sentinels has heard of the failover", got, after.addr)
		}
		if err := s.conn.readMap(within(t, unhurried), unhurried); err != nil {
			t.Fatal(err)
		}
	}
	// Both hear of the next one.
	for _, sentinel := range []*weirdServer{behind, ahead} {
		host, port, _ := net.SplitHostPort(before.addr)
		sentinel.set("SENTINEL GET-MASTER-ADDR-BY-NAME", fmt.Sprintf("*2\r\n+%s\r\n+%s\r\n", host, port))
		sentinel.set("SENTINEL MASTER", "*2\r\n+config-epoch\r\n+6\r\n")
	}
	await.NoError(t, "not so yet", func() error {
		if got := s.conn.topology.Load().shards[0].primary.addr; got != before.addr {
			return fmt.Errorf("the primary is %s, want %s", got, before.addr)
		}
		return nil
	})
}

// A server of a cluster may be there and serve nobody. Circuits must stay open then.
func TestProbeFailsWhileTheClusterServesNobody(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, redistest.ClusterOptions{NodeTimeout: time.Second})
	s := open(t, cluster.URL(), Options{Secret: testSecret})
	alive, dead := cluster.Servers()[0], cluster.Servers()[1]
	await.NoError(t, "not so yet", func() error { return s.Probe(within(t, time.Second), alive.Addr()) })
	cluster.ReplicaOf(dead).Kill()
	dead.Kill()
	await.NoError(t, "not so yet", func() error {
		reply, err := alive.Do("CLUSTER", "INFO")
		if err == nil && !strings.Contains(fmt.Sprint(reply), "cluster_state:fail") {
			err = errors.New("it is well")
		}
		return err
	})
	says(t, s.Probe(within(t, unhurried), alive.Addr()), alive.Addr(), "does not serve all keys", "cluster-require-full-coverage")
	if _, err := alive.Do("CONFIG", "SET", "cluster-require-full-coverage", "no"); err != nil {
		t.Fatal(err)
	}
	await.NoError(t, "not so yet", func() error { return s.Probe(within(t, time.Second), alive.Addr()) })
}

func TestProbeTellsWhetherAShardCanDecide(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	if err := s.Probe(within(t, unhurried), server.Addr()); err != nil {
		t.Errorf("a good one: %v", err)
	}
	if err := s.Probe(within(t, unhurried), "10.9.9.9:1"); err != nil {
		t.Errorf("an unknown one: %v", err)
	}
	if _, err := server.Do("REPLICAOF", "127.0.0.1", "1"); err != nil {
		t.Fatal(err)
	}
	says(t, s.Probe(within(t, unhurried), server.Addr()), server.Addr(), "is a replica")
	err := take(within(t, unhurried), s, "alice")
	says(t, err, server.Addr(), "is a replica, which takes no writes", "redis-sentinel://")
	if _, err := server.Do("REPLICAOF", "NO", "ONE"); err != nil {
		t.Fatal(err)
	}
	await.NoError(t, "not so yet", func() error { return s.Probe(within(t, time.Second), server.Addr()) })
	server.Pause()
	if err := s.Probe(within(t, 50*time.Millisecond), server.Addr()); err == nil {
		t.Error("one that hangs is good")
	}
	server.Resume()
	server.Kill()
	await.NoError(t, "not so yet", func() error {
		if s.Probe(within(t, time.Second), server.Addr()) == nil {
			return errors.New("one that is dead is good")
		}
		return nil
	})
}

// TestDemotedServerIsLeft is about a lone server behind a name, or a balancer, that leads to another after a failover
// while the old one is a replica and keeps its connections.
func TestDemotedServerIsLeft(t *testing.T) {
	t.Parallel()
	primary := redistest.Standalone(t, redistest.Options{})
	proxy := redistest.NewProxy(t, primary.Addr())
	s := open(t, "redis://"+proxy.Addr(), Options{Secret: testSecret})
	if _, err := primary.Do("REPLICAOF", "127.0.0.1", "1"); err != nil {
		t.Fatal(err)
	}
	before := s.conn.seeds[0].counts.connects.Load()
	await.NoError(t, "not so yet", func() error {
		_ = take(within(t, time.Second), s, "alice")
		if s.conn.seeds[0].counts.connects.Load() == before {
			return errors.New("not connected anew")
		}
		return nil
	})
}

func testServersThatLeaveAreForgotten(t *testing.T, cluster *redistest.ClusterSet) {
	first := cluster.Servers()[0]
	s := open(t, "redis-cluster://"+first.Addr(), Options{Secret: testSecret})
	c := s.conn
	m := c.topology.Load()
	i := 0
	for m.shards[i].name == first.Addr() {
		i++
	}
	gone := m.shards[i].primary
	c.mu.Lock()
	gone.wanted = time.Now().Add(-2 * forgetAfter)
	c.mu.Unlock()
	less := &topology{owners: m.owners, epoch: m.epoch}
	for j, s := range m.shards {
		if j == i {
			s = m.shards[(i+1)%len(m.shards)]
		}
		less.shards = append(less.shards, s)
	}
	c.adopt(less)
	await.NoError(t, "not so yet", func() error {
		err := gone.do(within(t, time.Second), c.b().Ping().Build()).Error()
		if !errors.Is(err, ErrAway) || errors.Is(err, headgate.ErrClosed) {
			return fmt.Errorf("got %w, want ErrAway", err)
		}
		return nil
	})
	// The next reading finds it again.
	await.NoError(t, "not so yet", func() error {
		for i := range 30 {
			if err := take(within(t, time.Second), s, fmt.Sprint("client", i)); err != nil {
				return err
			}
		}
		if m := c.topology.Load(); m.uncovered() > 0 || len(m.shards) != 3 {
			return errors.New("not found again")
		}
		return nil
	})
}

func TestMapsAreCompared(t *testing.T) {
	a, b := &node{}, &node{}
	one, two := lone(a), lone(b)
	if !one.same(one) || one.same(two) || one.same(nil) {
		t.Error("lone servers")
	}
	half := func(cut int) *topology {
		m := &topology{shards: []shard{{primary: a}, {primary: b}}, owners: make([]int16, slots)}
		for i := cut; i < slots; i++ {
			m.owners[i] = 1
		}
		return m
	}
	if !half(8000).same(half(8000)) || half(8000).same(half(8001)) || half(8000).same(one) {
		t.Error("clusters")
	}
}
