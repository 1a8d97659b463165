package gossip

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
)

const (
	// resendKeys is the number of keys that are sent again when a host joins, and now and then.
	resendKeys = 8192
	// resendPause is the minimum time until they are sent once more, requestedPause if a host requests it, and
	// resendInterval the maximum.
	resendPause    = 5 * time.Second
	requestedPause = time.Second
	resendInterval = time.Minute
)

// A keyWeight is how much of a key's limit is consumed, in thousandths: the possible error of a host that does not know
// it.
type keyWeight struct {
	key    ledger.Key
	permil int64
}

// A weightRanking keeps the keys with the highest weights.
type weightRanking struct {
	size      int
	minWeight int64 // the least weight that counts
	entries   []keyWeight
}

func (r *weightRanking) add(t *ledger.Tally) {
	permil := min(t.Level, headgate.MaxCount*(1+headgate.MaxDebt)) * 1000 / t.Limit.Capacity()
	if t.Recent {
		permil++ // another host may not know how much of it has drained
	}
	if permil <= r.minWeight { // drained, or too light
		return
	}
	r.entries = append(r.entries, keyWeight{key: t.Key, permil: permil})
	if len(r.entries) >= 2*r.size {
		r.prune()
		r.minWeight = r.entries[r.size-1].permil
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

func (r *weightRanking) keys() []ledger.Key {
	r.prune()
	keys := make([]ledger.Key, len(r.entries))
	for i := range r.entries {
		keys[i] = r.entries[i].key
	}
	return keys
}

// heaviestKeys returns up to so many keys with the highest weights, for a host that knows nothing: those that this host
// has consumed and, if received is set, those recently received. The hosts that consumed the latter may be gone.
func (g *Limiter) heaviestKeys(most int, received bool) []ledger.Key {
	r := weightRanking{size: most}
	g.ledger.Walk(func(t ledger.Tally) bool {
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

// recentKeys returns the keys that were received last.
func (in *inbox) recentKeys() (keys []ledger.Key) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, peer := range in.peers {
		if peer.recentKeys == nil {
			continue
		}
		for _, key := range peer.recentKeys {
			if key != (ledger.Key{}) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// A resend sends keys once more with spare bandwidth: when a host joins, for all it cannot know; after bandwidth was
// short, for totals that were sent only once; and now and then, for totals that were lost each time.
type resend struct {
	keys      []ledger.Key
	wanted    bool
	requested bool // by a host that may have missed something
	last      time.Duration
	tallies   []ledger.Tally
}

// startIfDue starts again if it is time.
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
