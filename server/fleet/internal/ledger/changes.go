package ledger

// Changes appends at most so many tallies to send, and treats them as sent; see [Ledger.Resend] if sending failed. The
// hottest keys come first: those with the most units consumed since their last tally, relative to the limit. An eighth
// of the places is for the others, so that each has its turn.
//
// If the ledger asks for keys, it also returns keys that were requested without being consumed: for the time that
// updates may be late, in every second call, and then, while the key is not drained, sixteen times per refill. So a
// key's consumption elsewhere is never much too old when the key is requested again.
func (l *Ledger) Changes(dst []Tally, most int) []Tally {
	now := l.now()
	end := len(dst) + most
	turn := int(l.counters.turns.Add(1))
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		l.sweep(sh, now, len(sh.list)/1024+2)
		l.queueRevisits(sh, turn, now)
		sh.mu.Unlock()
	}
	for class := classes - 1; class >= 0; class-- {
		dst = l.changesOf(dst, int8(class), turn, end-most/8, now)
	}
	for i := range classes {
		dst = l.changesOf(dst, int8((turn+i)%classes), turn, end, now)
	}
	return dst
}

// Lookups appends the tallies of keys that decisions wait for, as Changes does for all keys.
func (l *Ledger) Lookups(dst []Tally, most int) []Tally {
	return l.changesOf(dst, lookupClass, int(l.counters.turns.Load()), len(dst)+most, l.now())
}

// changesOf appends the tallies of a class until dst has end entries. Each call starts with another shard.
func (l *Ledger) changesOf(dst []Tally, class int8, turn, end int, now moment) []Tally {
	for i := range l.shards {
		if len(dst) >= end {
			break
		}
		sh := &l.shards[(turn+i)%shards]
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
			if l.self == 0 {
				r.exchangedAt = r.at(now)
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
func (l *Ledger) Resend(tallies []Tally) {
	for i := range tallies {
		t := &tallies[i]
		sh := l.shardOf(&t.Key)
		sh.mu.Lock()
		if r := sh.records[t.Key]; r != nil {
			if r.sent.start == t.Start {
				r.delivered = min(r.delivered, t.Delivered)
			}
			r.status.sendLevel, r.exchangedAt = true, 0 // peers may know anything of it
			l.queueChange(sh, r)
		}
		sh.mu.Unlock()
	}
}

// ResendGroups marks all totals of some key groups as not sent.
func (l *Ledger) ResendGroups(groups uint64) {
	if groups == 0 {
		return
	}
	for i := range l.shards { // each is a group
		if groups>>i&1 == 0 {
			continue
		}
		sh := &l.shards[i]
		sh.mu.Lock()
		for _, r := range sh.list {
			if r.plan.Shared && r.total > 0 {
				r.status.sendLevel = true
				l.queueChange(sh, r)
			}
		}
		sh.mu.Unlock()
	}
}

// Tallies appends the present tallies of some keys, except for keys without any. They do not count as sent.
func (l *Ledger) Tallies(dst []Tally, keys []Key) []Tally {
	now := l.now()
	for i := range keys {
		sh := l.shardOf(&keys[i])
		sh.mu.Lock()
		if r := sh.records[keys[i]]; r != nil && r.plan.Shared {
			l.advance(r, now)
			dst = append(dst, l.tallyToSend(r, now))
		}
		sh.mu.Unlock()
	}
	return dst
}

// Walk calls f with the tally of every key that this node has consumed, in no order, until f returns false. They do not
// count as sent. f must not call the ledger.
func (l *Ledger) Walk(f func(Tally) bool) {
	now := l.now()
	for i := range l.shards {
		if !l.walk(&l.shards[i], now, f) {
			return
		}
	}
}

func (l *Ledger) walk(sh *shard, now moment, f func(Tally) bool) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, r := range sh.list {
		if !r.plan.Shared || r.total == 0 {
			continue
		}
		l.advance(r, now)
		if !f(l.tallyToSend(r, now)) {
			return false
		}
	}
	return true
}
