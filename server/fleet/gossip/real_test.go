package gossip

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
)

func TestGossipHostsJoinSyncAndLeave(t *testing.T) {
	t.Parallel()
	a := startReal(t, "a", func(_ *fleet.LedgerOptions, o *Options) { o.Key = []byte("0123456789abcdef") })
	with := func(_ *fleet.LedgerOptions, o *Options) {
		o.Key, o.Join = []byte("0123456789abcdef"), []string{"localhost" + a.Addr()[len("127.0.0.1"):]} // a name
	}
	b, c := startReal(t, "b", with), startReal(t, "c", with)
	await.True(t, "three hosts know each other", allLive(3, a, b, c))
	b.take(t, "k", slow, 10)
	await.True(t, "all know of b's 10", func() bool {
		return a.remaining(t, "k", slow) == 990 && c.remaining(t, "k", slow) == 990
	})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	await.True(t, "b has left, and is not missed", func() bool {
		return a.Live() == 2 && a.Known() == 2 && c.Live() == 2 && c.Known() == 2
	})
	if !a.diary.has(PeerJoined) || !a.diary.has(PeerLeft) {
		t.Errorf("a was told %v, want that a host joined and left", a.diary.events)
	}
	if _, err := b.Take(t.Context(), headgate.Check{Key: "k", Limit: slow, Cost: 1}); !errors.Is(err, headgate.ErrClosed) {
		t.Errorf("take after Close: got %v, want %v", err, headgate.ErrClosed)
	}
}

func TestGossipJoinsAHostThatStartsLater(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	early := startReal(t, "early", func(_ *fleet.LedgerOptions, o *Options) { o.Join = []string{addr} })
	await.True(t, "it is told that nobody answers", func() bool { return early.diary.has(NotJoined) })
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	late := startReal(t, "late", func(_ *fleet.LedgerOptions, o *Options) { o.BindAddr = addr })
	await.True(t, "the two know each other", allLive(2, early, late))
}

func TestGossipIgnoresOtherFleets(t *testing.T) {
	t.Parallel()
	key := []byte("0123456789abcdef0123456789abcdef")
	for _, tt := range []struct {
		name   string
		change func(*fleet.LedgerOptions, *Options)
		want   EventKind
	}{
		{"wrong key", func(_ *fleet.LedgerOptions, o *Options) { o.Key = []byte("fedcba9876543210fedcba9876543210") }, WrongKey},
		{"no key", func(_ *fleet.LedgerOptions, o *Options) { o.Key = nil }, WrongKey},
		{"other name", func(_ *fleet.LedgerOptions, o *Options) { o.Cluster = "other" }, OtherCluster},
		{"same name, other secret", func(lo *fleet.LedgerOptions, _ *Options) { lo.Secret = []byte("a secret of others") }, OtherSecret},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			home := startReal(t, "home", func(_ *fleet.LedgerOptions, o *Options) { o.Key = key })
			friend := startReal(t, "friend", func(lo *fleet.LedgerOptions, o *Options) {
				o.Key = key
				joining(home)(lo, o)
			})
			outsider := startReal(t, "outsider", func(lo *fleet.LedgerOptions, o *Options) {
				o.Key = key
				joining(home)(lo, o)
				tt.change(lo, o)
			})
			await.True(t, "home hears of the outsider", func() bool { return home.diary.has(tt.want) })
			await.True(t, "the outsider hears that it is not let in", func() bool {
				return outsider.diary.has(NotJoined) || outsider.diary.has(tt.want)
			})
			await.True(t, "friends find each other", allLive(2, home, friend))
			outsider.take(t, "k", slow, 10)
			friend.take(t, "k", slow, 7)
			await.True(t, "home knows of its friend's 7", func() bool { return home.remaining(t, "k", slow) == 993 })
			if s := home.Stats(); s.WrongKey+s.OtherCluster+s.OtherSecret == 0 {
				t.Errorf("%+v: the outsider is not counted", s)
			}
			if outsider.Live() != 1 || home.Live() != 2 {
				t.Errorf("the outsider sees %d, home %d, want 1 and 2", outsider.Live(), home.Live())
			}
		})
	}
}

// An offset clock is the system's, moved ahead by the test.
type offsetClock struct {
	clock.Clock
	mu    sync.Mutex
	ahead time.Duration
}

func (c *offsetClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Clock.Now().Add(c.ahead)
}

func (c *offsetClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *offsetClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// The example of the book with a thousand seconds for each of its own, since a machine may be slow.
func TestGossipThreeHosts(t *testing.T) {
	t.Parallel()
	limit := headgate.Per(4, 1000*time.Second)
	clock := &offsetClock{Clock: clock.System}
	timed := func(lo *fleet.LedgerOptions, _ *Options) { lo.Clock = clock }
	a := startReal(t, "a", timed)
	hosts := []*realHost{a}
	for _, name := range []string{"b", "c"} {
		hosts = append(hosts, startReal(t, name, func(lo *fleet.LedgerOptions, o *Options) {
			timed(lo, o)
			joining(a)(lo, o)
		}))
	}
	await.True(t, "three hosts know each other", allLive(3, hosts...))
	all := func(want int64) func() bool {
		return func() bool {
			for _, h := range hosts {
				if h.remaining(t, "k", limit) != want {
					return false
				}
			}
			return true
		}
	}
	passed := 0
	// They take at once, as far as a test can have it: nobody hears of another between the takes.
	for _, h := range hosts {
		h.inbox.mu.Lock()
	}
	for _, h := range hosts {
		passed += h.take(t, "k", limit, 5)
	}
	for _, h := range hosts {
		h.inbox.mu.Unlock()
	}
	if passed != 12 {
		t.Errorf("%d passed, want 12", passed)
	}
	await.True(t, "all are at -8", all(-8))
	clock.move(2000 * time.Second)
	for _, h := range hosts {
		if h.take(t, "k", limit, 1) != 0 {
			t.Error("a host is open before 2 s are over")
		}
	}
	clock.move(250 * time.Second)
	await.True(t, "one may pass", all(1))
	if a.take(t, "k", limit, 2) != 1 {
		t.Error("want one to pass after 2.25 s, and no more")
	}
	await.True(t, "all have 0", all(0))
}

func TestGossipPartitionHeals(t *testing.T) {
	t.Parallel()
	network := newBadNet()
	wrapped := func(_ *fleet.LedgerOptions, o *Options) { o.Transport = network.wrap }
	a := startReal(t, "a", wrapped)
	more := func(lo *fleet.LedgerOptions, o *Options) {
		wrapped(lo, o)
		joining(a)(lo, o)
	}
	b, c := startReal(t, "b", more), startReal(t, "c", more)
	await.True(t, "three hosts know each other", allLive(3, a, b, c))
	network.sever(c.Addr(), true)
	await.True(t, "c is lost to the others, and they to it", func() bool {
		return a.Live() == 2 && b.Live() == 2 && c.Live() == 1
	})
	if a.Known() != 3 || c.Known() != 3 {
		t.Errorf("a knows %d and c %d, want 3", a.Known(), c.Known())
	}
	a.take(t, "k", slow, 100)
	c.take(t, "k", slow, 50)
	c.take(t, "only c", slow, 5)
	await.True(t, "b knows of a", func() bool { return b.remaining(t, "k", slow) == 900 })
	if got := a.remaining(t, "k", slow); got != 900 {
		t.Errorf("a has %d left while c is out of reach, want 900", got)
	}
	network.sever(c.Addr(), false)
	await.True(t, "all are there again", allLive(3, a, b, c))
	await.True(t, "all know all, though nobody takes any more", func() bool {
		for _, h := range []*realHost{a, b, c} {
			if h.remaining(t, "k", slow) != 850 || h.remaining(t, "only c", slow) != 995 {
				return false
			}
		}
		return true
	})
}

func TestGossipHostReturnsAtAnotherAddress(t *testing.T) {
	t.Parallel()
	const lag = 100 * time.Millisecond
	prompt := func(join ...*realHost) func(*fleet.LedgerOptions, *Options) {
		return func(lo *fleet.LedgerOptions, o *Options) {
			lo.Lag = lag
			joining(join...)(lo, o)
		}
	}
	a := startReal(t, "a", prompt())
	b := startReal(t, "b", prompt(a))
	await.True(t, "two hosts know each other", allLive(2, a, b))
	b.take(t, "k", slow, 100)
	await.True(t, "a knows of b's 100", func() bool { return a.remaining(t, "k", slow) == 900 })
	b.kill(t)
	heard := a.ledger.Uptime()
	// Units younger than the lag of updates are not part of the level that a newcomer adopts.
	await.True(t, "some time has passed", func() bool { return a.ledger.Uptime() > heard+2*lag })
	again := startReal(t, "b", prompt(a))
	if again.self.Incarnation == b.self.Incarnation {
		t.Error("the same incarnation twice")
	}
	await.True(t, "b is there again and knows what was consumed", func() bool {
		return a.Live() == 2 && again.Live() == 2 && again.remaining(t, "k", slow) == 900
	})
	again.take(t, "k", slow, 10)
	await.True(t, "a knows of 10 more", func() bool { return a.remaining(t, "k", slow) == 890 })
	if a.Known() != 2 {
		t.Errorf("a knows %d, want 2", a.Known())
	}
}

func TestGossipOverALossyNetwork(t *testing.T) {
	t.Parallel()
	network := newBadNet()
	network.loss, network.delay = 0.2, 20*time.Millisecond
	wrapped := func(_ *fleet.LedgerOptions, o *Options) { o.Transport = network.wrap }
	hosts := []*realHost{startReal(t, "0", wrapped)}
	for i := range 3 {
		hosts = append(hosts, startReal(t, fmt.Sprint(i+1), func(lo *fleet.LedgerOptions, o *Options) {
			wrapped(lo, o)
			joining(hosts[0])(lo, o)
		}))
	}
	await.True(t, "all know each other", allLive(4, hosts...))
	var running sync.WaitGroup
	for i, h := range hosts {
		running.Go(func() {
			for n := range 100 {
				h.take(t, fmt.Sprint("k", n%10), slow, 1)
				if n%20 == i {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	running.Wait()
	await.True(t, "all know all", func() bool {
		for _, h := range hosts {
			for k := range 10 {
				if h.remaining(t, fmt.Sprint("k", k), slow) != 960 {
					return false
				}
			}
		}
		return true
	})
	for _, h := range hosts {
		if s := h.Stats(); s.Malformed+s.OtherSecret+s.Ledger.Refused > 0 {
			t.Errorf("%s refused packets of friends: %+v", h.self.Name, s)
		}
		// That all packets take as long does not mean that they take no time.
		await.NoError(t, "the way to be measured", func() error {
			if s := h.Stats(); s.Ledger.Lag < h.options.Interval+network.delay || s.Ledger.LagMax < s.Ledger.Lag {
				return fmt.Errorf("%s: updates are %v old, and %v at most, want a round of %v and a way of %v at least",
					h.self.Name, s.Ledger.Lag, s.Ledger.LagMax, h.options.Interval, network.delay)
			}
			return nil
		})
	}
}

func TestGossipStreamsReplaceLostPackets(t *testing.T) {
	t.Parallel()
	network := newBadNet()
	wrapped := func(_ *fleet.LedgerOptions, o *Options) {
		o.Transport, o.Probe = network.wrap, 100*time.Millisecond
	}
	a := startReal(t, "a", wrapped)
	b := startReal(t, "b", func(lo *fleet.LedgerOptions, o *Options) {
		wrapped(lo, o)
		joining(a)(lo, o)
	})
	await.True(t, "the two know each other", allLive(2, a, b))
	network.mu.Lock()
	network.loss = 1
	network.mu.Unlock()
	a.take(t, "k", slow, 10)
	await.True(t, "b knows of a's 10", func() bool { return b.remaining(t, "k", slow) == 990 })
}

// As TestGossipHostsThatJoinLateKnowEarlierConsumption, over real sockets: each host joins the one before it.
func TestGossipRealHostsThatJoinLateKnowEarlierConsumption(t *testing.T) {
	t.Parallel()
	limit := headgate.MustParseLimit("20/30d fixed-window")
	last := startReal(t, "0", nil)
	passed := last.take(t, "k", limit, 25)
	for i := range 2 {
		h := startReal(t, fmt.Sprint(i+1), joining(last))
		await.True(t, "it hears of the others", allLive(i+2, h))
		await.True(t, "it hears of what was taken", func() bool { return h.remaining(t, "k", limit) <= 0 })
		passed += h.take(t, "k", limit, 25)
		last = h
	}
	if passed < 20 || passed > 22 {
		t.Errorf("passed on three hosts: got %d, want 20 to 22", passed)
	}
}
