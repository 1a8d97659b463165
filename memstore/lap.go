package memstore

import (
	"math"
	"time"
)

// A lap visits every entry, to drop dead ones. Entries keep their time modulo 2^39 µs, so laps must
// not be too far apart: after a lap at a time t, decisions are made for times from t − validBefore to t + validBefore.
// Later ones must wait for another lap, and earlier ones are made as if at the start of that range. The janitor
// completes a lap every few minutes, so that neither happens unless the clock jumps by an hour.
const (
	validBefore = 1 << (timeBits - 7) // 71 minutes
	validSpan   = 2 * validBefore

	// An entry that a lap leaves may have been dead for maxDeath. The next lap visits it before the end of the range, and
	// it is readable until then.
	_ = uint64(1<<timeBits - maxAhead - (maxLife + maxDeath + validBefore))

	sweepEvery = time.Second
	lapTime    = time.Minute
)

// now returns the time at which to decide.
func (s *Store) now() int64 {
	now := s.clock.micros()
	if s.valid(now) {
		return now
	}
	return s.nowAfterJump(now)
}

// nowInRange is like now, but never before the range. Entries are readable at some times before it, which now may
// return, but not at the time of a staggered clock that is behind even those.
func (s *Store) nowInRange() int64 {
	now := s.clock.micros()
	if uint64(now-s.from.Load()) < validSpan {
		return now
	}
	return s.nowAfterJump(now)
}

// maxBehind is how far a time may be before the range: a staggered clock is behind by up to a period. Entries written
// meanwhile are at most maxAhead after it.
const maxBehind = maxAhead - validSpan

// valid reports whether entries are readable at a time.
func (s *Store) valid(now int64) bool {
	return uint64(now-s.from.Load()+maxBehind) < validSpan+maxBehind
}

func (s *Store) nowAfterJump(now int64) int64 {
	s.laps.Lock()
	defer s.laps.Unlock()
	from := s.from.Load()
	if now < from {
		return from
	}
	if now >= from+validSpan {
		// The entries are readable at times near the last lap, not at a time this much later. No time is valid until all
		// have been visited: concurrent decisions wait for that.
		s.from.Store(math.MaxInt64 / 2)
		for n := range s.shards {
			s.sweepShard(uint8(n), from+validBefore, now)
		}
		s.from.Store(now - validBefore)
	}
	return now
}

// janitor sweeps the shards, some every second, until the store is closed.
func (s *Store) janitor() {
	defer s.running.Done()
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	const perTick = max(1, (1<<shardBits)*sweepEvery/lapTime)
	lapStart, next := s.now(), 0
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
				s.completeLap(lapStart)
				lapStart, next = now, 0
			}
		}
	}
}

func (s *Store) completeLap(start int64) {
	s.laps.Lock()
	defer s.laps.Unlock()
	s.from.Store(max(s.from.Load(), start-validBefore))
}

// sweepShard drops the dead entries of a shard, one segment at a time so that callers wait for at most one.
func (s *Store) sweepShard(n uint8, ref, now int64) {
	sh := &s.shards[n]
	for i := 0; ; { // if the directory doubles meanwhile, some segments are visited twice
		sh.mu.Lock()
		d := s.dirs[n].Load()
		if d == nil || i >= len(d.segments) || ref == now && !s.valid(now) {
			// If the clock has jumped, entries are not readable at this time any more, and the goroutine that noticed it has
			// swept them. That cannot happen while the shard is locked.
			sh.mu.Unlock()
			break
		}
		start := time.Now()
		g := d.segments[i]
		if found := g.survey(&s.layouts, ref, now, 0); found.stale || found.idle*8 >= len(g.slots) {
			sh.sweptAt(now)
			g.tidy(&sieve{layouts: &s.layouts, ref: ref, now: now, keepDead: keepDeadMicros})
		}
		if ref == now {
			s.merge(d, i, now)
		}
		span := 1 << (depthOf(d) - int(g.depth))
		i = (i/span + 1) * span
		sh.mu.Unlock()
		s.stopwatch.stop(start)
	}
	s.sweepWide(sh, now)
}

// sweepWide drops dead records of a shard, some at a time.
func (s *Store) sweepWide(sh *shard, now int64) {
	const some = 128
	for more, done := true, uint32(0); more; done += some {
		sh.mu.Lock()
		if sh.wide.pages == 0 {
			sh.mu.Unlock()
			return
		}
		start := time.Now()
		sh.sweptAt(now)
		s.sweepRecords(&sh.wide, some, now)
		more = false
		for i := range sh.wide.classes {
			more = more || sh.wide.classes[i].made > done+some
		}
		sh.mu.Unlock()
		s.stopwatch.stop(start)
	}
}
