package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/gossip"
)

func gossipScenarios() []harness.Scenario {
	return []harness.Scenario{{Name: "gossip-bandwidth", Seconds: 75, Run: runGossipBandwidth}}
}

func gossipMethod(b *strings.Builder, _ *harness.Results) {
	b.WriteString("- Gossip is measured with all hosts in this process, over UDP and TCP on the loopback interface, encrypted. Each host takes for all\n" +
		"  keys, half of the time for the hottest 1 %, which so change five times a second on every host. Bytes are what a host\n" +
		"  hands to its sockets, with the headers of IPv4 and UDP. A counter is as old as the oldest request, on any host, that it does not\n" +
		"  count yet; samples are of keys and hosts in turn.\n")
}

// A gossipLoad describes the load of the hosts.
type gossipLoad struct {
	hosts, keys    int
	perHost        int // decisions a second
	warmup, length time.Duration
}

// A gossipOutcome is the result of a gossipLoad.
type gossipOutcome struct {
	bytes     []float64 // a second, host by host
	hot, cold []time.Duration
	rate      float64 // decisions a second, all hosts
	stats     []gossip.Stats
}

// gossipLimit restores almost nothing during a measurement, so that a counter shows how many decisions it knows of.
var gossipLimit = headgate.Per(100_000, 300*24*time.Hour)

// A countedTransport counts the messages that a host sends.
type countedTransport struct {
	*memberlist.NetTransport
	sent *atomic.Int64
}

const udpHeaders = 28

func (c *countedTransport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	c.sent.Add(int64(len(b) + udpHeaders))
	return c.NetTransport.WriteToAddress(b, a)
}

func (c *countedTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	return c.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (c *countedTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	conn, err := c.NetTransport.DialAddressTimeout(a, timeout)
	if err != nil {
		return nil, err
	}
	return &countedConn{conn, c.sent}, nil
}

func (c *countedTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return c.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

type countedConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// A watchedKey is a key for which every decision is recorded.
type watchedKey struct {
	key string
	mu  sync.Mutex
	at  []time.Time
}

// age returns how long a counter that knows of the given number of decisions has been behind.
func (w *watchedKey) age(known int64, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known >= int64(len(w.at)) {
		return 0
	}
	return now.Sub(w.at[max(known, 0)])
}

// A gossipFleet is a group of hosts under load.
type gossipFleet struct {
	load    gossipLoad
	hosts   []*gossip.Limiter
	sent    []atomic.Int64
	keys    []string
	watched map[int]*watchedKey // by place in keys
	made    atomic.Int64
}

func runGossipBandwidth(ctx context.Context, b *harness.Bench) error {
	load := gossipLoad{hosts: 10, keys: 100_000, perHost: 10_000, warmup: 15 * time.Second, length: 40 * time.Second}
	if b.Results.Quick {
		load = gossipLoad{hosts: 4, keys: 2000, perHost: 500, warmup: 500 * time.Millisecond, length: time.Second}
	}
	b.Progress.At(0, "gossip", fmt.Sprint(load.hosts, " hosts"))
	out, err := measureGossip(ctx, load)
	if err != nil {
		return err
	}
	b.Results.Fleet = append(b.Results.Fleet, gossipTable(load, out))
	return nil
}

func gossipTable(load gossipLoad, out *gossipOutcome) harness.FleetTable {
	percent := func(ages []time.Duration, p float64) time.Duration {
		if len(ages) == 0 {
			return 0
		}
		return ages[min(int(p*float64(len(ages))), len(ages)-1)]
	}
	most := slices.Max(out.bytes)
	t := harness.FleetTable{
		Scenario: "gossip-bandwidth",
		Title: fmt.Sprintf("Gossip, %d hosts, %s active keys, %s decisions a second on all hosts together",
			load.hosts, harness.HumanCount(load.keys), harness.HumanRate(out.rate)),
		Columns: []string{"", "p50", "p99", "p99.9", "longest"},
	}
	for _, row := range []struct {
		name string
		ages []time.Duration
	}{{"age of counters, hottest 1 % of keys", out.hot}, {"age of counters, other keys", out.cold}} {
		slices.Sort(row.ages)
		line := []string{row.name}
		for _, p := range []float64{0.5, 0.99, 0.999, 1} {
			line = append(line, percent(row.ages, p).Round(time.Millisecond).String())
		}
		t.Rows = append(t.Rows, line)
	}
	t.Rows = append(t.Rows,
		[]string{
			"sent by a host, KB/s", fmt.Sprintf("%.0f", harness.MedianOf(slices.Clone(out.bytes))/1000), "", "",
			fmt.Sprintf("%.0f", most/1000),
		})
	name := fmt.Sprintf("gossip, %d hosts, %s active keys", load.hosts, harness.HumanCount(load.keys))
	t.Bars = []harness.Bar{
		harness.JudgedBar(name+": sent by each host", "≤ 1 MB/s", fmt.Sprintf("%.2f MB/s", most/1e6), most <= 1e6),
		harness.JudgedBar(name+": the hottest 1 % fresh within", "250 ms (p99)",
			percent(out.hot, 0.99).Round(time.Millisecond).String(),
			len(out.hot) > 0 && percent(out.hot, 0.99) <= 250*time.Millisecond),
	}
	return t
}

// measureGossip runs hosts under load.
func measureGossip(ctx context.Context, load gossipLoad) (out *gossipOutcome, err error) {
	f := &gossipFleet{load: load, sent: make([]atomic.Int64, load.hosts), watched: map[int]*watchedKey{}}
	defer func() {
		for _, h := range f.hosts {
			err = errors.Join(err, h.Close())
		}
	}()
	if err := f.start(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	failed := make(chan error, load.hosts)
	for i := range f.hosts {
		running.Go(func() { failed <- f.drive(ctx, i) })
	}
	out = f.watch(ctx)
	cancel()
	running.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	for _, h := range f.hosts {
		out.stats = append(out.stats, h.Stats())
	}
	return out, err
}

func (f *gossipFleet) start(ctx context.Context) error {
	f.keys = make([]string, f.load.keys)
	for i := range f.keys {
		f.keys[i] = fmt.Sprintf("client-%06d", i)
	}
	for i := range 100 { // of the hottest 1 %, and as many of the others
		hot, cold := i*f.hottest()/100, f.hottest()+i*(f.load.keys-f.hottest())/100
		f.watched[hot] = &watchedKey{key: f.keys[hot]}
		f.watched[cold] = &watchedKey{key: f.keys[cold]}
	}
	for i := range f.load.hosts {
		o := gossip.Options{
			Name: fmt.Sprint("host-", i), BindAddr: "127.0.0.1:0", Key: []byte("a key of 16 byte"),
			OnEvent: func(gossip.Event) {},
			Transport: func(t *memberlist.NetTransport) memberlist.NodeAwareTransport {
				return &countedTransport{t, &f.sent[i]}
			},
		}
		if i > 0 {
			o.Join = []string{f.hosts[0].Addr()}
		}
		h, err := gossip.New(fleet.LedgerOptions{}, o)
		if err != nil {
			return err
		}
		f.hosts = append(f.hosts, h)
	}
	deadline := time.Now().Add(time.Minute)
	for _, h := range f.hosts {
		for h.Live() < len(f.hosts) {
			if time.Now().After(deadline) {
				return fmt.Errorf("gossip: %d of %d hosts found each other", h.Live(), len(f.hosts))
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

func (f *gossipFleet) hottest() int { return f.load.keys / 100 }

// drive makes decisions on one host at its rate.
func (f *gossipFleet) drive(ctx context.Context, host int) error {
	const tick = 5 * time.Millisecond
	random := rand.New(rand.NewPCG(uint64(host), 1))
	begun, done := time.Now(), 0
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for due := int(time.Since(begun).Seconds() * float64(f.load.perHost)); done < due; done++ {
			n := random.IntN(f.hottest())
			if done%2 == 1 {
				n = f.hottest() + random.IntN(f.load.keys-f.hottest())
			}
			if err := f.take(f.hosts[host], n); err != nil {
				return err
			}
		}
	}
}

func (f *gossipFleet) take(host *gossip.Limiter, n int) error {
	c := headgate.Check{Key: f.keys[n], Limit: gossipLimit, Cost: 1}
	w := f.watched[n]
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
	}
	d, err := host.Take(context.Background(), c)
	if err != nil {
		return err
	}
	if !d.Allowed {
		return fmt.Errorf("gossip: %s was denied", c.Key)
	}
	if w != nil {
		w.at = append(w.at, time.Now())
	}
	f.made.Add(1)
	return nil
}

// watch looks at the counters of watched keys on all hosts, in turn.
func (f *gossipFleet) watch(ctx context.Context) *gossipOutcome {
	out := &gossipOutcome{}
	rest(ctx, f.load.warmup)
	begun, made := time.Now(), f.made.Load()
	sent := make([]int64, len(f.sent))
	for i := range f.sent {
		sent[i] = f.sent[i].Load()
	}
	for n := 0; time.Since(begun) < f.load.length && ctx.Err() == nil; n++ {
		host := f.hosts[n%len(f.hosts)]
		for i, w := range f.watched {
			age, err := f.age(host, w)
			if err != nil {
				continue // the load fails of it too
			}
			if i < f.hottest() {
				out.hot = append(out.hot, age)
			} else {
				out.cold = append(out.cold, age)
			}
		}
		rest(ctx, 7*time.Millisecond)
	}
	took := time.Since(begun).Seconds()
	for i := range f.sent {
		out.bytes = append(out.bytes, float64(f.sent[i].Load()-sent[i])/took)
	}
	out.rate = float64(f.made.Load()-made) / took
	return out
}

func (f *gossipFleet) age(host *gossip.Limiter, w *watchedKey) (time.Duration, error) {
	d, err := host.Peek(context.Background(), headgate.Check{Key: w.key, Limit: gossipLimit})
	if err != nil {
		return 0, err
	}
	return w.age(gossipLimit.Capacity()-d.Remaining, time.Now()), nil
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
