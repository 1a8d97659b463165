package ledger

// Changes appends to dst what there is to tell, at most so many tallies, and takes it for told: if it could not be, see
// [Ledger.Retell]. The hottest come first: those of which the most was consumed since it was told, relative to the limit.
// An eighth of the places is kept for the others, so that each has its turn.
//
// If the ledger asks for news, keys that were asked for are among them, though nothing was consumed; and for some time
// after that, in every other call for as long as news may be late, and then, while there is anything left of what was
// consumed, sixteen times in the time in which all of it would refill. So what is known of a key when it is asked for
// again is never much older than matters.
func (l *Ledger) Changes(dst []Tally, most int) []Tally {
	now := l.now()
	end := len(dst) + most
	turn := int(l.counters.turns.Add(1))
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		l.sweep(sh, now, len(sh.list)/1024+2)
		l.askAgain(sh, turn, now)
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

// Lookups appends what there is to tell of the keys that decisions wait for, as Changes does for all.
func (l *Ledger) Lookups(dst []Tally, most int) []Tally {
	return l.changesOf(dst, lookupClass, int(l.counters.turns.Load()), len(dst)+most, l.now())
}

// changesOf appends what is in the queues of a class, until dst is as long as it may be. Each time another shard is first.
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
			l.roll(r, now)
			dst = append(dst, l.tell(r, now))
			r.class, r.told, r.speak = none, r.total, false
			if l.self == 0 {
				r.exchanged = r.at(now)
			}
			if l.fresh(r, now) {
				sh.stay(r, soon)
			}
		}
		sh.mu.Unlock()
	}
	return dst
}

// Resend takes tallies that Changes has returned for untold again, as nobody may have heard them.
func (l *Ledger) Resend(tallies []Tally) {
	for i := range tallies {
		t := &tallies[i]
		sh := l.shardOf(&t.Key)
		sh.mu.Lock()
		if r := sh.records[t.Key]; r != nil {
			if r.start == t.Start {
				r.told = min(r.told, t.Acknowledged)
			}
			r.speak, r.exchanged = true, 0 // whatever was known: nobody can tell now
			l.changed(sh, r)
		}
		sh.mu.Unlock()
	}
}

// ResendGroups has all that this node consumed told once more, of some groups of keys.
func (l *Ledger) ResendGroups(groups uint64) {
	if groups == 0 {
		return
	}
	for i := range l.shards { // of which each is a group
		if groups>>i&1 == 0 {
			continue
		}
		sh := &l.shards[i]
		sh.mu.Lock()
		for _, r := range sh.list {
			if r.plan.Shared && r.total > 0 {
				r.speak = true
				l.changed(sh, r)
			}
		}
		sh.mu.Unlock()
	}
}

// Tallies appends what there is to say of some keys now, and leaves out those of which there is nothing. They do not
// count as told.
func (l *Ledger) Tallies(dst []Tally, keys []Key) []Tally {
	now := l.now()
	for i := range keys {
		sh := l.shardOf(&keys[i])
		sh.mu.Lock()
		if r := sh.records[keys[i]]; r != nil && r.plan.Shared {
			l.roll(r, now)
			dst = append(dst, l.tell(r, now))
		}
		sh.mu.Unlock()
	}
	return dst
}

// Walk calls f with what there is to say of every key of which this node has consumed, in no order, until f returns
// false. They do not count as told. f must not call the ledger.
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
		l.roll(r, now)
		if !f(l.tell(r, now)) {
			return false
		}
	}
	return true
}
