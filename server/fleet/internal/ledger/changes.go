package ledger

import (
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// Changes appends up to maxTallies tallies to dst, and marks them as sent. If sending fails, the caller must call
// [Ledger.Resend]. The hottest keys come first. These are the keys with the most units since their last tally, relative
// to the limit. An eighth of the tallies is reserved for other keys, which take turns.
//
// A ledger that pulls must read updates of peers even if it has nothing to send. So Changes also returns keys that were
// requested recently, in every second call, because updates may be late. After that, until the key has drained, Changes
// returns it sixteen times in the time in which the limit refills. So this node has recent updates of peers when the
// key is requested again.
func (l *Ledger) Changes(dst []tally.Tally, maxTallies int) []tally.Tally {
	now := l.now()
	end := len(dst) + maxTallies
	call := int(l.counters.changesCalls.Add(1))
	var ready uint32 // classes with records to send, one bit each
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		l.sweep(sh, now, len(sh.list)/1024+2) // looks at each record once in about a thousand calls
		if l.pulls {
			l.queueRevisits(sh, call, now)
		}
		sh.mu.Unlock()
		ready |= sh.ready.Load()
	}
	for class := classes - 1; class >= 0; class-- {
		if ready>>class&1 == 1 {
			dst = l.changesInClass(dst, int8(class), call, end-maxTallies/8, now)
		}
	}
	for i := range classes {
		if class := (call + i) % classes; ready>>class&1 == 1 {
			dst = l.changesInClass(dst, int8(class), call, end, now)
		}
	}
	return dst
}

// Lookups appends to dst up to maxTallies tallies of keys that decisions wait for, and marks them as sent.
func (l *Ledger) Lookups(dst []tally.Tally, maxTallies int) []tally.Tally {
	return l.changesInClass(dst, lookupClass, int(l.counters.changesCalls.Load()), len(dst)+maxTallies, l.now())
}

// changesInClass appends tallies of a heat class until dst has end entries. call is the number of the call of Changes.
// Each call starts with another shard, so that no shard is always the last.
func (l *Ledger) changesInClass(dst []tally.Tally, class int8, call, end int, now moment) []tally.Tally {
	for i := range l.shards {
		if len(dst) >= end {
			break
		}
		sh := &l.shards[(call+i)%shardCount]
		if sh.ready.Load()>>class&1 == 0 {
			continue
		}
		sh.mu.Lock()
		for len(dst) < end {
			r := sh.pop(class)
			if r == nil {
				break
			}
			l.advance(r, now)
			dst = append(dst, l.tallyToSend(r, now))
			r.status.class, r.delivered, r.status.sendLevel = none, r.total, false
			if l.pulls {
				r.exchangedAt = r.time(now)
			}
			if l.recentlyRequested(r, now) {
				sh.revisitEvery(r, shortGap)
			}
		}
		sh.mu.Unlock()
	}
	return dst
}

// Resend marks tallies that Changes returned as not sent.
func (l *Ledger) Resend(tallies []tally.Tally) {
	for i := range tallies {
		t := &tallies[i]
		sh, r := l.lockRecord(&t.Key)
		if r != nil {
			if r.sent.start == t.Start {
				r.delivered = min(r.delivered, t.Delivered)
			}
			r.status.sendLevel, r.exchangedAt = true, 0 // some peers may have received the tally, but which is unknown
			l.queueChange(sh, r)
		}
		sh.mu.Unlock()
	}
}

// ResendGroups queues all totals of some key groups again. groups has one bit for each group.
func (l *Ledger) ResendGroups(groups uint64) {
	if groups == 0 {
		return
	}
	for i := range l.shards { // each shard has the keys of one group
		if groups>>i&1 == 0 {
			continue
		}
		sh := &l.shards[i]
		sh.mu.Lock()
		for _, r := range sh.list {
			if r.plan.Shared && (r.total > 0 || r.hasEarlier()) {
				r.status.sendLevel = true
				l.queueChange(sh, r)
			}
		}
		sh.mu.Unlock()
	}
}

// Tallies appends the current tallies of keys to dst, and leaves out keys without a tally. The tallies are not marked
// as sent.
func (l *Ledger) Tallies(dst []tally.Tally, keys []tally.Key) []tally.Tally {
	now := l.now()
	for i := range keys {
		sh, r := l.lockRecord(&keys[i])
		if r != nil && r.plan.Shared {
			l.advance(r, now)
			dst = append(dst, l.tallyToSend(r, now))
		}
		sh.mu.Unlock()
	}
	return dst
}

// Updates compares known tallies with the current ones, and appends the current tallies that have another total or
// another limit to dst. The tallies are not marked as sent.
func (l *Ledger) Updates(dst []tally.Tally, known []*tally.Tally) []tally.Tally {
	now := l.now()
	for _, t := range known {
		sh, r := l.lockRecord(&t.Key)
		if r != nil && r.plan.Shared {
			l.advance(r, now)
			if r.total != t.Total || r.sent.start != t.Start || r.offset != t.Offset || r.plan.Limit != t.Limit {
				dst = append(dst, l.tallyToSend(r, now))
			}
		}
		sh.mu.Unlock()
	}
	return dst
}

// Walk calls f with the tally of every key that this node has consumed, or whose earlier windows count, until f returns
// false. The order is undefined. The tallies are not marked as sent. f must not call the ledger, because a shard is
// locked.
func (l *Ledger) Walk(f func(tally.Tally) bool) {
	now := l.now()
	for i := range l.shards {
		if !l.walk(&l.shards[i], now, f) {
			return
		}
	}
}

func (l *Ledger) walk(sh *shard, now moment, f func(tally.Tally) bool) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, r := range sh.list {
		if !r.plan.Shared {
			continue
		}
		l.advance(r, now)
		if (r.total > 0 || r.hasEarlier()) && !f(l.tallyToSend(r, now)) {
			return false
		}
	}
	return true
}
