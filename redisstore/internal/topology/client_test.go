package topology

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/internal/redistest"
)

// keyIn returns a key that a server of a cluster has.
func keyIn(t testing.TB, c *redistest.ClusterSet, server *redistest.Server) string {
	t.Helper()
	for i := range 10000 {
		key := fmt.Sprintf("hg:{%d}key", i)
		if c.PrimaryOf(key) == server {
			return key
		}
	}
	t.Fatalf("no key found for %s", server)
	return ""
}

func testKeysThatMoveAreFollowed(t *testing.T, cluster *redistest.ClusterSet) {
	c := connect(t, cluster.URL(), Options{})
	from, to := cluster.Servers()[0], cluster.Servers()[1]
	key := keyIn(t, cluster, from)
	tag := key[:strings.IndexByte(key, '}')+1]
	incr := func() (int64, error) {
		return c.Do(within(t, unhurried), c.Builder().Incr().Key(key).Build()).AsInt64()
	}
	both := func() error {
		return c.Do(within(t, unhurried), c.Builder().Mget().Key(key, tag+"other").Build()).Error()
	}
	want := int64(0)
	expect := func(when string) {
		t.Helper()
		for range 3 {
			want++
			if got, err := incr(); err != nil || got != want {
				t.Errorf("%s: got %d, %v; want %d", when, got, err, want)
			}
		}
	}
	expect("before")
	if err := c.Do(within(t, unhurried), c.Builder().Set().Key(tag+"other").Value("1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	move := cluster.BeginMove(redistest.SlotOf(key), to)
	expect("while it is to be moved")
	move.MoveKey(key)
	expect("when it was moved and the slot was not (ASK)")

	// One of two keys has moved: TRYAGAIN, until the other follows.
	retries := func() int64 { return c.seeds[0].counts.retries.Load() + c.seeds[1].counts.retries.Load() }
	before := retries()
	finished := make(chan error)
	go func() { finished <- both() }()
	await.NoError(t, "not so yet", func() error {
		if retries() == before {
			return errors.New("no reply was TRYAGAIN")
		}
		return nil
	})
	move.Finish()
	if err := <-finished; err != nil {
		t.Errorf("two keys, of which one had moved (TRYAGAIN): %v", err)
	}
	expect("when the slot was moved (MOVED)")
	await.NoError(t, "not so yet", func() error {
		if got, want := c.ShardOf(key), to.Addr(); got != want {
			return fmt.Errorf("the shard of the key is %s, want %s", got, want)
		}
		return nil
	})
}

func testTryAgainEndsWithTheDeadline(t *testing.T, cluster *redistest.ClusterSet) {
	c := connect(t, cluster.URL(), Options{})
	key := keyIn(t, cluster, cluster.Servers()[0])
	other := key[:strings.IndexByte(key, '}')+1] + "other"
	for _, k := range []string{key, other} {
		if err := c.Do(within(t, unhurried), c.Builder().Set().Key(k).Value("1").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	move := cluster.BeginMove(redistest.SlotOf(key), cluster.Servers()[1])
	move.MoveKey(key)
	var err error
	for range 20 { // on a busy machine time can run out before the server's last reply
		begin := time.Now()
		err = c.Do(within(t, 200*time.Millisecond), c.Builder().Mget().Key(key, other).Build()).Error()
		if took := time.Since(begin); took > soon || took < 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if _, ok := rueidis.IsRedisErr(err); ok {
			break
		}
	}
	contains(t, c.Explain(err, c.ShardOf(key)), cluster.Servers()[0].Addr(), "moving keys", "TRYAGAIN")
	move.Finish()
}

func testDoMultiReachesAllShards(t *testing.T, cluster *redistest.ClusterSet) {
	for _, protocol := range []string{"2", "3"} {
		c := connect(t, cluster.URL()+"?protocol="+protocol, Options{})
		const n = 100
		var sets, gets []rueidis.Completed
		for i := range n {
			sets = append(sets, c.Builder().Set().Key(fmt.Sprint("key", i)).Value(fmt.Sprint(i)).Build())
			gets = append(gets, c.Builder().Get().Key(fmt.Sprint("key", i)).Build())
		}
		for i, r := range c.DoMulti(within(t, unhurried), sets...) {
			if err := r.Error(); err != nil {
				t.Fatalf("set %d: %v", i, err)
			}
		}
		// One slot has moved, which some of the servers know.
		cluster.MoveSlot(redistest.SlotOf("key7"), other(cluster, cluster.PrimaryOf("key7")))
		for i, r := range c.DoMulti(within(t, unhurried), gets...) {
			if got, err := r.ToString(); err != nil || got != fmt.Sprint(i) {
				t.Errorf("get %d: %q, %v", i, got, err)
			}
		}
	}
}

// other returns another primary.
func other(c *redistest.ClusterSet, not *redistest.Server) *redistest.Server {
	for slot := 0; ; slot += 1000 {
		if s := c.PrimaryOfSlot(slot % redistest.Slots); s != not {
			return s
		}
	}
}

func TestLoadingIsWaitedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{Persist: true, Config: []string{
		"enable-debug-command yes", "key-load-delay 20000", "loading-process-events-interval-bytes 1024",
	}})
	c := connect(t, server.URL(), Options{})
	if _, err := server.Do("DEBUG", "POPULATE", "50", "k", "2000"); err != nil {
		t.Fatal(err)
	}
	n := c.seeds[0]
	await.NoError(t, "no reload is noticed", func() error {
		reloaded := make(chan error, 1)
		go func() {
			_, err := server.Do("DEBUG", "RELOAD")
			reloaded <- err
		}()
		for {
			select {
			case err := <-reloaded:
				if err == nil && n.counts.retries.Load() == 0 {
					err = errors.New("no reply was LOADING")
				}
				return err
			default:
			}
			err := call(within(t, unhurried), c, "alice")
			// On a busy machine, a server that loads can be silent for so long that its connection is replaced.
			if err != nil && !errors.Is(err, ErrNoResponse) && !errors.Is(err, ErrUnreachable) {
				t.Fatalf("while it loads: %v", err)
			}
		}
	})
	t.Logf("%d replies were LOADING", n.counts.retries.Load())
}

func TestReadsGoToReplicasIfAllowed(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	sentinels := redistest.Sentinel(t, redistest.SentinelOptions{})
	for name, set := range map[string]struct {
		url     string
		servers []*redistest.Server
	}{
		"cluster":  {cluster.URL(), cluster.Servers()},
		"sentinel": {sentinels.URL(), sentinels.Servers()},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, set.url, Options{ReadReplicas: true})
			// No replica counts as hung for this client because the machine is busy.
			patient := connect(t, set.url+"?hang_timeout=10m", Options{ReadReplicas: true})
			look := func(c *Client, key string) error {
				_, err := c.Do(within(t, unhurried), c.Builder().Get().Key(key).Build()).ToString()
				return err
			}
			for i := range 20 {
				key := fmt.Sprint("key", i)
				if err := c.Do(within(t, unhurried), c.Builder().Set().Key(key).Value("1").Build()).Error(); err != nil {
					t.Fatal(err)
				}
				await.NoError(t, "not so yet", func() error { return look(c, key) })
			}
			await.NoError(t, "not so yet", func() error {
				for _, s := range patient.current.Load().Shards {
					if len(s.readable) == 0 {
						return fmt.Errorf("%s has no replica", s.Name)
					}
					for _, n := range s.readable {
						if !n.Connected() {
							return fmt.Errorf("%s is not up", n.addr)
						}
					}
				}
				return nil
			})
			gets := func() (primary, replica int64) {
				for _, s := range set.servers {
					n := s.CommandStats()["get"]
					if s.Info("replication")["role"] == "master" {
						primary += n
					} else {
						replica += n
					}
				}
				return primary, replica
			}
			primary0, replica0 := gets()
			for i := range 20 {
				if err := look(patient, fmt.Sprint("key", i)); err != nil {
					t.Fatal(err)
				}
			}
			primary1, replica1 := gets()
			if primary1 != primary0 || replica1-replica0 != 20 {
				t.Errorf("of 20 reads the primaries got %d and the replicas %d", primary1-primary0, replica1-replica0)
			}
			// A write does not go to replicas.
			if err := c.Do(within(t, unhurried), c.Builder().Incr().Key("n").Build()).Error(); err != nil {
				t.Error(err)
			}
			// Without replicas, the primary responds.
			for _, server := range set.servers {
				if server.Info("replication")["role"] != "master" {
					server.Pause()
					defer server.Resume()
				}
			}
			for i := range 20 {
				key := fmt.Sprint("key", i)
				await.NoError(t, "not so yet", func() error {
					return c.Do(within(t, 100*time.Millisecond), c.Builder().Get().Key(key).Build()).Error()
				})
			}
		})
	}
}

func TestRedirectionsAreRead(t *testing.T) {
	for _, tt := range []struct{ addr, want string }{
		{"10.0.0.1:6379", "10.0.0.1:6379"},
		{":6380", "here:6380"},
		{"::1:6379", "[::1]:6379"},
		{"[::1]:6379", "[::1]:6379"},
		{"name.example.com:1", "name.example.com:1"},
		{"?:6379", ""},
		{"", ""},
		{"nonsense", ""},
		{"host:", ""},
	} {
		got, ok := redirectionAddr(tt.addr, "here:6379")
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%q: got %q, %t; want %q", tt.addr, got, ok, tt.want)
		}
	}
}

func testSentCommandsAreNotLost(t *testing.T, cluster *redistest.ClusterSet) {
	// The library may reuse a command at once, so a rebuilt command must be equal to the first one.
	c := connect(t, cluster.URL(), Options{})
	var wrong atomic.Int64
	callers := newCrowdWithin(patience, 32, func(ctx context.Context, i int) error {
		key := fmt.Sprint("echo", i)
		got, err := c.Do(ctx, c.Builder().Eval().Script("return KEYS[1]..ARGV[1]").Numkeys(1).Key(key).Arg("!").Build()).ToString()
		if err == nil && got != key+"!" {
			wrong.Add(1)
		}
		return err
	})
	for slot := 0; slot < redistest.Slots; slot += redistest.Slots / 20 {
		cluster.MoveSlot(slot, other(cluster, cluster.PrimaryOfSlot(slot)))
	}
	for i := range 32 {
		slot := redistest.SlotOf(fmt.Sprint("echo", i))
		cluster.MoveSlot(slot, other(cluster, cluster.PrimaryOfSlot(slot)))
	}
	callers.end()
	if wrong.Load() > 0 {
		t.Errorf("%d replies are to other commands", wrong.Load())
	}
	if failed := int64(len(callers.failures())); failed > callers.calls.Load()/10 && !racing.Enabled { // on a busy machine some run out of time
		t.Errorf("%d of %d calls failed while slots moved: %s", failed, callers.calls.Load(), callers.why())
	}
}

func TestCallsAllocateNoMoreThanTheLibrary(t *testing.T) {
	racing.Skip(t, "the race detector allocates")
	server := redistest.Standalone(t, redistest.Options{})
	c := connect(t, server.URL(), Options{})
	ctx := within(t, 5*time.Minute)
	// allocations returns the least of several averages, since other goroutines allocate too.
	allocations := func(do func(context.Context, rueidis.Completed) rueidis.RedisResult) float64 {
		least := math.Inf(1)
		for range 5 {
			least = min(least, testing.AllocsPerRun(500, func() {
				if err := do(ctx, c.Builder().Ping().Message("x").Build()).Error(); err != nil {
					t.Fatal(err)
				}
			}))
		}
		return least
	}
	if ours, library := allocations(c.Do), allocations(c.seeds[0].client.Do); ours > library {
		t.Errorf("a call allocates %v times, a call of the library %v times", ours, library)
	}
}

// BenchmarkDo measures the round trip to the server, beside the client library alone.
func BenchmarkDo(b *testing.B) {
	server := redistest.Standalone(b, redistest.Options{})
	c := connect(b, server.URL(), Options{})
	for _, bb := range []struct {
		name string
		do   func(context.Context, rueidis.Completed) rueidis.RedisResult
	}{{"store", c.Do}, {"library", c.seeds[0].client.Do}} {
		for _, callers := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("%s/%d", bb.name, callers), func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
				ctx := within(b, time.Minute)
				call := func() {
					if err := bb.do(ctx, c.Builder().Eval().Script("return 1").Numkeys(1).Key("k").Build()).Error(); err != nil {
						b.Error(err)
					}
				}
				if callers == 1 {
					for b.Loop() {
						call()
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						call()
					}
				})
			})
		}
	}
}
