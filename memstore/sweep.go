package memstore

import (
	"math"
	"time"
)

// A full sweep visits every entry and drops the dead ones. Entries store their time modulo 2^39 µs, so an old entry
// must be dropped before its time looks like a later one. After a sweep at a time t, entries are readable in the range
// from t − validBefore to t + validBefore. A decision after that range waits for another sweep. A decision earlier than
// the range is made for the start of the range. sweepPeriodically completes a sweep every few minutes, so neither
// happens unless the clock jumps by an hour.
const (
	validBefore = 1 << (timeBits - 7) // 71 minutes
	validSpan   = 2 * validBefore

	// This constant does not compile if the other constants are inconsistent. An entry that a sweep does not drop may have
	// been dead for maxDeath, and must stay readable until the end of the range.
	_ = uint64(1<<timeBits - maxAhead - (maxLife + maxDeath + validBefore))

	sweepEvery    = time.Second
	fullSweepTime = time.Minute
)

// now returns the time at which to decide.
func (s *Store) now() int64 {
	now := s.clock.micros()
	if s.validAt(now) {
		return now
	}
	return s.nowAfterJump(now)
}

// nowInRange is like now, but never returns a time before the range. now may return a time up to maxBehind before the
// range. The clock of a staggered key is even further behind, and validAt may reject its time.
func (s *Store) nowInRange() int64 {
	now := s.clock.micros()
	if uint64(now-s.validFrom.Load()) < validSpan {
		return now
	}
	return s.nowAfterJump(now)
}

// maxBehind is how far a time may be before the range, because the clock of a staggered key is behind by up to a
// period. The time of an entry that was written at the end of the range is then at most maxAhead after such a time.
const maxBehind = maxAhead - validSpan

// validAt reports whether entries are readable at the given time.
func (s *Store) validAt(now int64) bool {
	return uint64(now-s.validFrom.Load()+maxBehind) < validSpan+maxBehind
}

// nowAfterJump returns the time at which to decide if the clock is outside the range. If the clock is after the range,
// it makes a full sweep.
func (s *Store) nowAfterJump(now int64) int64 {
	s.sweepMu.Lock()
	defer s.sweepMu.Unlock()
	from := s.validFrom.Load()
	if now < from {
		return from
	}
	if now >= from+validSpan {
		// The entries are readable near the time of the last sweep, but not now. Until all of them have been visited, no
		// time is valid, and concurrent decisions wait.
		s.validFrom.Store(math.MaxInt64 / 2)
		for n := range s.shards {
			s.sweepShard(uint8(n), from+validBefore, now)
		}
		s.validFrom.Store(now - validBefore)
	}
	return now
}

// sweepPeriodically sweeps some shards every second, until the store is closed.
func (s *Store) sweepPeriodically() {
	defer s.running.Done()
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	const perTick = max(1, (1<<shardBits)*sweepEvery/fullSweepTime)
	sweepStart, next := s.now(), 0
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
		for range perTick {
			now := s.now()
			s.sweepShard(uint8(next), now, now)
			if next++; next == len(s.shards) {
				s.completeSweep(sweepStart)
				sweepStart, next = now, 0
			}
		}
	}
}

// completeSweep moves the range after a full sweep that began at start.
func (s *Store) completeSweep(start int64) {
	s.sweepMu.Lock()
	defer s.sweepMu.Unlock()
	s.validFrom.Store(max(s.validFrom.Load(), start-validBefore))
}

// sweepShard drops the dead entries of a shard. It locks the shard for one segment at a time, so that callers do not
// wait for the whole shard. ref is a time at which the entries are readable.
func (s *Store) sweepShard(n uint8, ref, now int64) {
	sh := &s.shards[n]
	for i := 0; ; { // if the directory doubles meanwhile, some segments are visited twice
		sh.mu.Lock()
		d := s.dirs[n].Load()
		if d == nil || i >= len(d.segments) || ref == now && !s.validAt(now) {
			// All segments were visited, or the clock has jumped. After a jump, entries are not readable at now, and the
			// goroutine that noticed the jump has swept them.
			sh.mu.Unlock()
			break
		}
		start := time.Now()
		g := d.segments[i]
		if found := g.survey(&s.layouts, ref, now, 0); found.stale || found.idle*8 >= len(g.slots) {
			sh.setSwept(now)
			g.tidy(&tidyOptions{layouts: &s.layouts, ref: ref, now: now, keepDead: keepDeadMicros})
		}
		if ref == now {
			s.merge(d, i, now)
		}
		span := d.span(g)
		i = (i/span + 1) * span
		sh.mu.Unlock()
		s.stopwatch.stop(start)
	}
	s.sweepShardRecords(sh, now)
}

// sweepShardRecords drops the dead records of a shard. It locks the shard for a few of them at a time.
func (s *Store) sweepShardRecords(sh *shard, now int64) {
	const batch = 128
	for more, done := true, uint32(0); more; done += batch {
		sh.mu.Lock()
		if sh.records.pages == 0 {
			sh.mu.Unlock()
			return
		}
		start := time.Now()
		sh.setSwept(now)
		s.sweepRecords(&sh.records, batch, now)
		more = false
		for i := range sh.records.classes {
			more = more || sh.records.classes[i].capacity > done+batch
		}
		sh.mu.Unlock()
		s.stopwatch.stop(start)
	}
}
