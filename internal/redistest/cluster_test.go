package redistest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSlotOfCountsOnlyTheHashTag(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int{
		"":                  0,
		"123456789":         0x31c3,
		"foo":               12182,
		"{foo}":             12182,
		"a{foo}b{bar}":      12182,
		"foo{}{bar}":        int(crc16("foo{}{bar}") % Slots),
		"foo{{bar}}zap":     int(crc16("{bar") % Slots),
		"foo{bar":           int(crc16("foo{bar") % Slots),
		"}foo{bar}{foo}zap": int(crc16("bar") % Slots),
	} {
		if got := SlotOf(key); got != want {
			t.Errorf("%q: got %d, want %d", key, got, want)
		}
	}
}

func TestAClusterMovesSlotsAndFailsOver(t *testing.T) {
	t.Parallel()
	const ahead = 10 * time.Second
	c := Cluster(t, ClusterOptions{
		Clocks: []time.Duration{0, 0, 0, ahead, ahead, ahead},
		Server: Options{MaxMemory: 32 << 20},
	})
	if got, want := c.URL(), "redis-cluster://"+addrs(c.Servers()); got != want {
		t.Errorf("URL: got %s, want %s", got, want)
	}
	if got := clockOffset(t, c.Servers()[5]); (got - ahead).Abs() > time.Second {
		t.Errorf("a replica's clock: got %v ahead, want %v", got, ahead)
	}
	for key := range strings.SplitSeq("a b c d {e}1 {e}2 f{} g{}h", " ") {
		if got := c.Servers()[0].must("CLUSTER", "KEYSLOT", key); got != int64(SlotOf(key)) {
			t.Errorf("SlotOf %s: got %d, want %d", key, SlotOf(key), got)
		}
		c.PrimaryOf(key).must("SET", key, "value")
	}
	slot := SlotOf("{e}")
	from := c.PrimaryOfSlot(slot)
	to := without(c.Servers()[:primaries], from)[0]

	t.Run("half a move", func(t *testing.T) {
		old, other := client(t, "tcp", from.Addr()), client(t, "tcp", to.Addr())
		move := c.BeginMove(slot, to)
		expect(t, old, "value", "GET", "{e}1")
		ask := fmt.Sprintf("ASK %d %s", slot, to.Addr())
		moved := fmt.Sprintf("MOVED %d %s", slot, from.Addr())
		expect(t, old, ask, "GET", "{e}3")
		expect(t, other, moved, "GET", "{e}1")
		move.MoveKey("{e}1", "{e}none")
		expect(t, old, ask, "GET", "{e}1")
		expect(t, old, "TRYAGAIN", "MGET", "{e}1", "{e}2")
		expect(t, other, "OK", "ASKING")
		expect(t, other, "value", "GET", "{e}1")
		if n := move.MoveKeys(5); n != 1 {
			t.Errorf("got %d keys moved, want the last one", n)
		}
		move.Finish()
		expect(t, other, "[value value]", "MGET", "{e}1", "{e}2")
		expect(t, old, fmt.Sprintf("MOVED %d %s", slot, to.Addr()), "GET", "{e}1")
	})
	t.Run("a whole move", func(t *testing.T) {
		c.MoveSlot(slot, from)
		expect(t, client(t, "tcp", from.Addr()), "[value value]", "MGET", "{e}1", "{e}2")
	})
	t.Run("fill memory", func(t *testing.T) {
		from.FillMemory()
		expect(t, client(t, "tcp", from.Addr()), "OOM", "SET", "{e}1", "value")
		from.must("FLUSHALL")
		from.must("SET", "{e}1", "value")
	})
	t.Run("failover", func(t *testing.T) {
		replica := c.ReplicaOf(from)
		c.Failover(replica)
		if got := c.PrimaryOf("{e}1"); got != replica {
			t.Errorf("got %s, want %s", got, replica)
		}
		expect(t, client(t, "tcp", replica.Addr()), "value", "GET", "{e}1")
	})
	t.Run("and back at once", func(t *testing.T) {
		c.Failover(from)
		if got := c.PrimaryOf("{e}1"); got != from {
			t.Errorf("got %s, want %s", got, from)
		}
	})
	t.Run("a primary dies", func(t *testing.T) {
		heir := c.ReplicaOf(from)
		old := c.KillPrimaryOf("{e}1")
		if got := c.WaitForFailover("{e}1", old); got != heir {
			t.Errorf("got %s, want %s", got, heir)
		}
		old.Restart()
		c.Settle()
		if got := c.ReplicaOf(heir); got != old {
			t.Errorf("replica: got %s, want %s", got, old)
		}
	})
}

func TestAClusterWorksWithPasswordsAndTLS(t *testing.T) {
	t.Parallel()
	c := Cluster(t, ClusterOptions{Server: Options{Password: "secret", TLS: true}})
	if got, want := c.URL(), "rediss-cluster://:secret@"+addrs(c.Servers()); got != want {
		t.Errorf("URL: got %s, want %s", got, want)
	}
	c.PrimaryOf("a").must("SET", "a", "value")
	to := c.ReplicaOf(c.PrimaryOf("b"))
	c.Failover(to)
	c.MoveSlot(SlotOf("a"), to)
	if got := to.must("GET", "a"); got != "value" {
		t.Errorf("got %v, want value", got)
	}
}
