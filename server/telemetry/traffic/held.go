package traffic

import (
	"cmp"
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/headgate/headgate/server/telemetry/traffic/internal/seedhash"
)

const (
	// heldFrom is the number of requests in a minute from which a client is held. The requests of a held client are
	// counted by the second, even if the client is not in the random sample, because a few clients send most requests.
	heldFrom = 60
	// maxHeld is the maximum number of held clients. Each rule may have an equal part of it, but at least leastHeld.
	maxHeld   = 200
	leastHeld = 2
)

// A heldClient is the state of a held client.
type heldClient struct {
	requests uint32 // in the minute, at the last tick
	minute   int64
}

// hold counts the requests of the last second of clients with many requests. tables are the tables of the minute.
// shared is the table of the rules that have none of their own.
func (s *sampler) hold(unix, minute int64, tables []*table, shared *table) {
	var candidates []candidate
	for _, t := range tables {
		candidates = t.appendHeavy(candidates, s.mayHold)
	}
	for stats, r := range s.rules {
		for key := range r.held {
			candidates = stats.clients.Load().appendHeld(candidates, stats, key)
			candidates = shared.appendHeld(candidates, stats, key)
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return cmp.Compare(b.requests, a.requests) })
	for i := range candidates {
		s.holdClient(&candidates[i], unix, minute)
	}
	for _, r := range s.rules {
		for key, h := range r.held {
			if minute-h.minute > 60 || h.minute == minute-60 && h.requests < heldFrom {
				delete(r.held, key)
			}
		}
	}
}

// mayHold reports whether a client is held, or may be held from now on.
func (s *sampler) mayHold(stats *ruleStats, key uint64) bool {
	r := s.rules[stats]
	return r == nil || len(r.held) < s.maxHeld() || r.held[key] != nil
}

// maxHeld returns the maximum number of held clients of a rule.
func (s *sampler) maxHeld() int { return max(maxHeld/max(len(s.rules), 1), leastHeld) }

// A candidate is a client that may be held.
type candidate struct {
	clientValues
	stats    *ruleStats
	key      uint64
	requests uint32
}

// appendHeavy appends the clients with at least heldFrom requests that may be held. It runs each second, so it skips
// buckets without such a client before it locks them.
func (t *table) appendHeavy(list []candidate, mayHold func(*ruleStats, uint64) bool) []candidate {
	for at := range uint64(len(t.buckets)) {
		b := &t.buckets[at]
		if b.weights[0].Load() < heldFrom && b.weights[1].Load() < heldFrom &&
			b.weights[2].Load() < heldFrom && b.weights[3].Load() < heldFrom {
			continue
		}
		t.lock(at)
		for i := range ways {
			slot := t.slotAt(at, i)
			if slot.rule == nil || slot.truncated || b.weights[i].Load() < heldFrom {
				continue
			}
			if n := t.requestsAt(at, i); n >= heldFrom {
				key := seedhash.Sum(slot.rule.fleet, unsafe.String(&slot.values[0], slot.size))
				if mayHold(slot.rule, key) {
					list = append(list, candidate{slot.clientValues, slot.rule, key, n})
				}
			}
		}
		t.unlock(at)
	}
	return list
}

// appendHeld appends a held client that is in the table, unless appendHeavy has appended it.
func (t *table) appendHeld(list []candidate, stats *ruleStats, key uint64) []candidate {
	if t == nil {
		return list
	}
	at, fingerprint := t.locate(key)
	t.lock(at)
	defer t.unlock(at)
	i := t.buckets[at].find(fingerprint)
	if i == ways {
		return list
	}
	slot := t.slotAt(at, i)
	if n := t.requestsAt(at, i); slot.rule == stats && !slot.truncated && n < heldFrom {
		list = append(list, candidate{slot.clientValues, stats, key, n})
	}
	return list
}

func (s *sampler) holdClient(c *candidate, unix, minute int64) {
	r, chunk := s.chunk(c.stats, unix)
	h := r.held[c.key]
	span := int64(1) // the number of seconds over which the requests are spread
	if h == nil {
		if len(r.held) >= s.maxHeld() {
			return
		}
		h = &heldClient{minute: minute}
		r.held[c.key] = h
		span = unix - minute + 1 // its earlier requests were not counted by the second
	}
	if h.minute != minute || c.requests < h.requests { // the table was emptied
		h.minute, h.requests = minute, 0
	}
	count := int64(c.requests - h.requests)
	h.requests = c.requests
	entry := s.client(r, chunk, c.key, &c.clientValues)
	entry.held = true
	entry.overflow = entry.overflow || c.requests > maxPerMinute
	before := cap(entry.counts)
	for i := range span {
		second := unix - span + 1 + i
		n := count*(i+1)/span - count*i/span
		if n == 0 || second < entry.lastSec {
			continue
		}
		entry.counts = binary.AppendUvarint(entry.counts, uint64(second-entry.lastSec))
		entry.counts = binary.AppendUvarint(entry.counts, uint64(n))
		entry.lastSec = second
	}
	s.account(r, cap(entry.counts)-before)
}
