package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headgate/headgate/server/sim/scenario"
)

// A network decides whether messages arrive, and when.
type network struct {
	random       *rand.Rand
	delay        time.Duration // mean delay of a message
	distribution scenario.Distribution
	loss         float64          // part of the messages that is lost, from 0 to 1
	normal       scenario.Network // delay and loss without faults
	// partitions are the current partitions. Each is a list of nodes, or of regions. Nodes in the list do not reach Redis
	// or nodes outside the list. Regions in the list do not reach regions outside the list.
	partitions [][]int
	faults     []*scenario.Fault // current faults that change delay or loss; the last fault of each kind applies
	bytes      int64             // size of all messages so far
}

func newNetwork(normal scenario.Network, random *rand.Rand) *network {
	n := &network{random: random, distribution: normal.Distribution, normal: normal}
	n.update()
	return n
}

// update sets delay and loss after a fault has begun or ended.
func (n *network) update() {
	n.delay, n.loss = *n.normal.Delay, float64(n.normal.Loss)/100
	for _, f := range n.faults {
		if f.Kind == scenario.Slow {
			n.delay = f.Delay
		} else {
			n.loss = float64(f.Loss) / 100
		}
	}
}

// send returns the delay of a message, or false if it is lost.
func (n *network) send(bytes int) (delay time.Duration, arrives bool) {
	n.bytes += int64(bytes)
	if n.loss > 0 && n.random.Float64() < n.loss {
		return 0, false
	}
	return n.sample(), true
}

// heavyTail is the exponent of the distribution heavy. The mean of this distribution is heavyTail/(heavyTail−1) times
// its smallest value.
const heavyTail = 2.5

func (n *network) sample() time.Duration {
	mean := float64(n.delay)
	switch n.distribution {
	case scenario.Fixed:
		return n.delay
	case scenario.Uniform:
		return time.Duration(2 * mean * n.random.Float64())
	case scenario.Heavy:
		least := mean * (heavyTail - 1) / heavyTail
		return time.Duration(min(least*math.Pow(1-n.random.Float64(), -1/heavyTail), 1000*mean))
	default:
		return time.Duration(mean / 2 * (1 + n.random.ExpFloat64()))
	}
}

// cutOff begins a partition of nodes or regions. heal ends it.
func (n *network) cutOff(group []int) (heal func()) {
	n.partitions = append(n.partitions, group)
	return func() {
		i := slices.IndexFunc(n.partitions, func(g []int) bool { return &g[0] == &group[0] })
		n.partitions = slices.Delete(n.partitions, i, i+1)
	}
}

// reachesRedis reports whether a node reaches Redis.
func (n *network) reachesRedis(node int) bool {
	for _, group := range n.partitions {
		if slices.Contains(group, node) {
			return false
		}
	}
	return true
}

// connects reports whether two nodes, or two regions, reach each other.
func (n *network) connects(a, b int) bool {
	for _, group := range n.partitions {
		if slices.Contains(group, a) != slices.Contains(group, b) {
			return false
		}
	}
	return true
}
