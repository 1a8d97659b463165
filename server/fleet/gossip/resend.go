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
	// resendInterval is the time from one resend to the next. It is resendPause if a resend is wanted, and requestedPause
	// if another host requests it.
	resendPause    = 5 * time.Second
	requestedPause = time.Second
	resendInterval = time.Minute
)

// A keyWeight is the consumed part of a key's limit, in thousandths. A host that does not know the key can be wrong by
// that much.
type keyWeight struct {
	key    tally.Key
	permil int64
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
	if permil <= r.minWeight { // drained, or too light
		return
	}
	r.entries = append(r.entries, keyWeight{key: t.Key, permil: permil})
	if len(r.entries) >= 2*r.size {
		r.prune() // removes keys that several hosts sent, so there may be fewer than size
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
// keys that this host has consumed and, if received is set, also keys that other hosts recently sent. These hosts may
// have left.
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

// recentKeys returns the keys that were received recently.
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

// A resend sends the heaviest keys once more, with spare bandwidth. It runs when a host has joined, which does not know
// earlier updates, and after bandwidth was short, because totals were then sent only once. It also runs every
// resendInterval, for totals that were lost each time.
type resend struct {
	keys      []tally.Key
	wanted    bool
	requested bool          // by a host that may have missed updates
	last      time.Duration // when a resend last started
	tallies   []tally.Tally
}

// startIfDue starts the next resend if it is due.
func (r *resend) startIfDue(g *Limiter, now time.Duration) {
	pause := resendInterval
	switch {
	case r.requested:
		pause = requestedPause
	case r.wanted:
		pause = resendPause
	}
	if len(r.keys) > 0 || now-r.last < pause {
		return
	}
	r.keys, r.wanted, r.requested, r.last = g.heaviestKeys(resendKeys, false), false, false, now
}

// queueNext adds up to n keys to the outbox.
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
