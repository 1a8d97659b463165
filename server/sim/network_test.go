package sim

import (
	"testing"
	"time"

	"github.com/headgate/headgate/server/sim/scenario"
)

func TestPartitionsAreApartFromEachOther(t *testing.T) {
	t.Parallel()
	delay := time.Millisecond
	n := newNetwork(scenario.Network{Delay: &delay}, nil)
	expect := func(when string, a, b int, want bool) {
		t.Helper()
		if got := n.connects(a, b); got != want {
			t.Errorf("%s: %d reaches %d: got %t, want %t", when, a, b, got, want)
		}
	}
	healFirst := n.cutOff([]int{0, 1})
	healSecond := n.cutOff([]int{2, 3})
	expect("two partitions", 0, 1, true)
	expect("two partitions", 0, 2, false)
	expect("two partitions", 3, 4, false)
	expect("two partitions", 4, 5, true)
	healFirst()
	expect("the second partition", 0, 4, true)
	expect("the second partition", 0, 2, false)
	if n.reachesRedis(2) || !n.reachesRedis(0) {
		t.Errorf("node 2 reaches Redis: %t, node 0: %t; want false and true", n.reachesRedis(2), n.reachesRedis(0))
	}
	healSecond()
	expect("no partition", 2, 4, true)
}
