package gossip

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet/internal/ledger"
)

const (
	// resendKeys is how many keys are told again when a host has come, and now and then.
	resendKeys = 8192
	// resendPause is how long it takes at least until they are told once more, askedPause if a host asks for it, and recallEvery
	// at most.
	resendPause    = 5 * time.Second
	requestedPause = time.Second
	resendInterval = time.Minute
)

// A worth is how much of a key's limit is consumed, in thousandths: what somebody who does not know may do wrong.
type worth struct {
	key    ledger.Key
	permil int64
}

// A ranking keeps the keys that are most worth telling.
type ranking struct {
	most  int
	least int64 // what one must be worth to be among them
	all   []worth
}

func (r *ranking) add(t *ledger.Tally) {
	permil := min(t.Level, headgate.MaxCount*(1+headgate.MaxDebt)) * 1000 / t.Limit.Capacity()
	if t.Recent {
		permil++ // somebody may not know how much of it has drained
	}
	if permil <= r.least { // as good as new, or not among them
		return
	}
	r.all = append(r.all, worth{key: t.Key, permil: permil})
	if len(r.all) >= 2*r.most {
		r.prune()
		r.least = r.all[r.most-1].permil
	}
}

func (r *ranking) prune() {
	slices.SortFunc(r.all, func(a, b worth) int {
		if c := cmp.Compare(b.permil, a.permil); c != 0 {
			return c
		}
		return bytes.Compare(a.key[:], b.key[:])
	})
	r.all = slices.Compact(r.all)
	r.all = r.all[:min(r.most, len(r.all))]
}

func (r *ranking) keys() []ledger.Key {
	r.prune()
	keys := make([]ledger.Key, len(r.all))
	for i := range r.all {
		keys[i] = r.all[i].key
	}
	return keys
}

// hottest returns the keys that are most worth telling to somebody who knows nothing, at most so many: those of which this
// host has consumed and, if heard, those of which it has heard of late. Whoever has consumed of these may be no more.
func (g *Limiter) hottest(most int, heard bool) []ledger.Key {
	r := ranking{most: most}
	g.ledger.Walk(func(t ledger.Tally) bool {
		r.add(&t)
		return true
	})
	if heard {
		for _, t := range g.ledger.Tallies(nil, g.inbox.keys()) {
			r.add(&t)
		}
	}
	return r.keys()
}

// keys returns the keys that were heard of last.
func (h *inbox) keys() (keys []ledger.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.others {
		if c.heardOf == nil {
			continue
		}
		for _, key := range c.heardOf {
			if key != (ledger.Key{}) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// A resend is what is told once more, with bandwidth that nothing else needs: when a host has come, for what it cannot
// know; when bandwidth was short, for what was told but once; and now and then, for what was lost however often it was told.
type resend struct {
	keys    []ledger.Key
	wanted  bool
	asked   bool // by a host that may have missed something
	last    time.Duration
	tallies []ledger.Tally
}

// startIfDue begins again if it is time.
func (r *resend) startIfDue(g *Limiter, now time.Duration) {
	pause := resendInterval
	switch {
	case r.asked:
		pause = requestedPause
	case r.wanted:
		pause = resendPause
	}
	if len(r.keys) > 0 || now-r.last < pause {
		return
	}
	r.keys, r.wanted, r.asked, r.last = g.hottest(resendKeys, false), false, false, now
}

// next puts up to n keys among what is to be told.
func (r *resend) next(g *Limiter, n int, now time.Duration) {
	n = min(n, len(r.keys), g.sender.out.room())
	if n <= 0 {
		return
	}
	r.tallies = g.ledger.Tallies(r.tallies[:0], r.keys[:n])
	for i := range r.tallies {
		g.sender.out.put(&r.tallies[i], true, g.sender.uptime, now)
	}
	r.keys = r.keys[n:]
}
