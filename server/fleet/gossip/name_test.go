package gossip

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/fleet"
)

// named returns options of a host that joins others, over a network that the test can cut.
func named(network *badNet, probe time.Duration, join ...*realHost) func(*fleet.LedgerOptions, *Options) {
	return func(lo *fleet.LedgerOptions, o *Options) {
		o.Transport, o.Probe = network.wrap, probe
		joining(join...)(lo, o)
	}
}

func allHave(t *testing.T, key string, want int64, hosts ...*realHost) func() bool {
	return func() bool {
		for _, h := range hosts {
			if h.remaining(t, key, slow) != want {
				return false
			}
		}
		return true
	}
}

func TestGossipSecondHostOfANameDoesNotSilenceTheFirst(t *testing.T) {
	t.Parallel()
	network := newBadNet()
	const probe = 5 * time.Second // so that nobody is taken for lost, however busy the machine is
	first := startReal(t, "a", named(network, probe))
	b := startReal(t, "b", named(network, probe, first))
	c := startReal(t, "c", named(network, probe, first))
	await.True(t, "three hosts know each other", allLive(3, first, b, c))
	first.take(t, "k", slow, 10)
	await.True(t, "all know of the first's 10", allHave(t, "k", 990, b, c))

	second := startReal(t, "a", named(network, probe, first, b, c))
	await.True(t, "all are told that there are two", func() bool {
		for _, h := range []*realHost{first, b, c, second} {
			if !h.diary.has(NameTaken) {
				return false
			}
		}
		return true
	})
	second.take(t, "k", slow, 5)
	await.True(t, "the second has spoken", func() bool { return b.Stats().Outdated > 0 && c.Stats().Outdated > 0 })
	first.take(t, "k", slow, 10)
	await.True(t, "all know of the first's 20", allHave(t, "k", 980, b, c))

	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	first.take(t, "k", slow, 10)
	await.True(t, "all know of the first's 30", allHave(t, "k", 970, b, c))
	b.take(t, "k", slow, 1)
	await.True(t, "the first is still told", allHave(t, "k", 969, first, c))
	for _, h := range []*realHost{b, c} {
		if live, known := h.Live(), h.Known(); live != 3 || known != 3 || h.diary.has(PeerLeft) {
			t.Errorf("%s has %d live and %d known after the second has left, and was told %v; want 3, 3, and of nobody who left",
				h.self.Name, live, known, h.diary.events)
		}
	}

	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the first has left, and is not missed", func() bool {
		return b.Live() == 2 && b.Known() == 2 && c.Live() == 2 && c.Known() == 2
	})
}

func TestGossipSecondHostOfANameIsHeardWhileTheFirstIsLost(t *testing.T) {
	t.Parallel()
	network := newBadNet()
	const probe = 100 * time.Millisecond
	b := startReal(t, "b", named(network, probe))
	first := startReal(t, "a", named(network, probe, b))
	await.True(t, "two hosts know each other", allLive(2, first, b))
	first.take(t, "k", slow, 10)
	await.True(t, "b knows of the first's 10", allHave(t, "k", 990, b))
	second := startReal(t, "a", named(network, probe, b))
	await.True(t, "the second hears that its name is taken", func() bool { return second.diary.has(NameTaken) })

	network.sever(first.Addr(), true)
	second.take(t, "of the second", slow, 20)
	await.True(t, "b knows of the second's 20", allHave(t, "of the second", 980, b))
	network.sever(first.Addr(), false)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	first.take(t, "k", slow, 10)
	await.True(t, "b knows of the first's 20, since it is the only one again", func() bool {
		return b.remaining(t, "k", slow) == 980 && b.Live() == 2 && b.Known() == 2
	})
}
