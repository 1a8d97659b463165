package sim

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/headgate/headgate/server/sim/scenario"
)

// clientBursts are the clients of a source with ClientOn. Each client alternately sends and pauses, at its own times.
// In the list, the clients that send at the same time are next to each other, so draw finds one of them by binary
// search.
type clientBursts struct {
	on, period time.Duration
	clients    []burstClient // sorted by offset
	weights    []float64     // for each index, the sum of the weights of all clients before it
}

// A burstClient begins a burst when its offset and the time add up to a multiple of the period.
type burstClient struct {
	offset time.Duration
	client uint64
}

func newClientBursts(spec *scenario.Source) *clientBursts {
	b := &clientBursts{
		on: spec.ClientOn, period: spec.ClientOn + spec.ClientOff,
		clients: make([]burstClient, spec.Clients), weights: make([]float64, spec.Clients+1),
	}
	for i := range b.clients {
		b.clients[i] = burstClient{time.Duration(mix(uint64(i)) % uint64(b.period)), uint64(i)}
	}
	slices.SortFunc(b.clients, func(x, y burstClient) int {
		return cmp.Or(cmp.Compare(x.offset, y.offset), cmp.Compare(x.client, y.client))
	})
	for i, c := range b.clients {
		weight := 1.0
		if spec.Zipf > 0 {
			// rand.Zipf, which draws clients that never pause, has the same distribution.
			weight = math.Pow(1+float64(c.client), -float64(spec.Zipf))
		}
		b.weights[i+1] = b.weights[i] + weight
	}
	return b
}

// draw returns one of the clients that send at the given time. random, a number from 0 to 1, chooses the client. ok is
// false if no client sends.
func (b *clientBursts) draw(at time.Duration, random float64) (client uint64, ok bool) {
	first := (b.period - at%b.period) % b.period
	start, end := b.index(first), b.index(first+b.on)
	wrapped := b.index(first + b.on - b.period) // the clients before this index send too
	weight := b.weights[end] - b.weights[start]
	target := float64(random * (weight + b.weights[wrapped])) // rounds the product, so all machines get the same target
	if target < weight {
		target += b.weights[start]
	} else {
		target, start, end = target-weight, 0, wrapped
	}
	if start == end {
		return 0, false
	}
	i := start + sort.Search(end-start-1, func(i int) bool { return target < b.weights[start+i+1] })
	return b.clients[i].client, true
}

// index returns the index of the first client whose offset is at least the given one.
func (b *clientBursts) index(offset time.Duration) int {
	return sort.Search(len(b.clients), func(i int) bool { return b.clients[i].offset >= offset })
}
