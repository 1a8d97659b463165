package gossip

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

const (
	// resendKeys is the maximum number of keys that a resend sends.
	resendKeys = 8192
	// The minimum time from the start of one resend to the next.
	resendInterval    = time.Minute
	neededInterval    = 5 * time.Second // if resend.needed is set
	requestedInterval = time.Second     // if resend.requested is set
)

// A keyWeight is a key and the consumed part of its limit. Keys with a high weight are sent first, because a host that
// does not know them would admit too much.
type keyWeight struct {
	key    tally.Key
	permil int64 // consumed thousandths of the limit
}

// A weightRanking keeps the keys with the highest weights.
type weightRanking struct {
	size      int
	minWeight int64 // only keys with a higher weight are added
	entries   []keyWeight
}

func (r *weightRanking) add(t *tally.Tally) {
	permil := min(t.Level, headgate.MaxCount*(1+headgate.MaxDebt)) * 1000 / t.Limit.Capacity()
	if t.Recent {
		permil++ // another host may not know how much of it has drained
	}
	if permil <= r.minWeight { // the key has drained, or enough heavier keys are known
		return
	}
	r.entries = append(r.entries, keyWeight{key: t.Key, permil: permil})
	if len(r.entries) >= 2*r.size {
		r.prune() // also removes duplicates, so there may be fewer entries than size
		if len(r.entries) == r.size {
			r.minWeight = r.entries[r.size-1].permil
		}
	}
}

func (r *weightRanking) prune() {
	slices.SortFunc(r.entries, func(a, b keyWeight) int {
		if c := cmp.Compare(b.permil, a.permil); c != 0 {
			return c
		}
		return bytes.Compare(a.key[:], b.key[:])
	})
	r.entries = slices.Compact(r.entries)
	r.entries = r.entries[:min(r.size, len(r.entries))]
}

func (r *weightRanking) keys() []tally.Key {
	r.prune()
	keys := make([]tally.Key, len(r.entries))
	for i := range r.entries {
		keys[i] = r.entries[i].key
	}
	return keys
}

// heaviestKeys returns up to maxKeys keys with the highest weights, for a host that knows no keys. It considers the
// keys that this host has consumed. If received is set, it also considers keys that other hosts recently sent, because
// these hosts may have left.
func (g *Limiter) heaviestKeys(maxKeys int, received bool) []tally.Key {
	r := weightRanking{size: maxKeys}
	g.ledger.Walk(func(t tally.Tally) bool {
		r.add(&t)
		return true
	})
	if received {
		for _, t := range g.ledger.Tallies(nil, g.inbox.recentKeys()) {
			r.add(&t)
		}
	}
	return r.keys()
}

// recentKeys returns the keys that other hosts recently sent.
func (in *inbox) recentKeys() (keys []tally.Key) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, peer := range in.peers {
		if peer.recentKeys == nil {
			continue
		}
		for _, key := range peer.recentKeys {
			if key != (tally.Key{}) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// A resend sends the heaviest keys again, with spare bandwidth. A host needs one when another host has joined, which
// does not know earlier updates, and after bandwidth was short, because totals were then sent only once. A resend also
// starts every resendInterval, in case all packets with a total were lost.
type resend struct {
	keys      []tally.Key // keys that are still to be sent
	needed    bool
	requested bool          // another host that may have missed updates has requested a resend
	startedAt time.Duration // when the latest resend started
	tallies   []tally.Tally // reused by queueNext
}

// startIfDue starts the next resend if it is due and the previous one has ended.
func (r *resend) startIfDue(g *Limiter, now time.Duration) {
	interval := resendInterval
	switch {
	case r.requested:
		interval = requestedInterval
	case r.needed:
		interval = neededInterval
	}
	if len(r.keys) > 0 || now-r.startedAt < interval {
		return
	}
	r.keys, r.needed, r.requested, r.startedAt = g.heaviestKeys(resendKeys, false), false, false, now
}

// queueNext adds the next n keys of the resend to the outbox, or fewer if there are not so many or the outbox is full.
func (r *resend) queueNext(g *Limiter, n int, now time.Duration) {
	n = min(n, len(r.keys), g.sender.out.room())
	if n <= 0 {
		return
	}
	r.tallies = g.ledger.Tallies(r.tallies[:0], r.keys[:n])
	for i := range r.tallies {
		g.sender.out.put(&r.tallies[i], true, g.sender.round.uptime, now)
	}
	r.keys = r.keys[n:]
}
