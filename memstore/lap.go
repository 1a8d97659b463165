package memstore

import (
	"math"
	"time"
)

// A lap is a look at every entry, to forget those that are dead. Entries keep their time modulo 2^39 µs, so laps must
// not be too far apart: after a lap at a time t, decisions are made for times from t − validBefore to t + validBefore.
// Later ones must wait for another lap, and earlier ones are made as if at the start of that range. The janitor
// completes a lap every few minutes, so that neither happens unless the clock jumps by an hour.
const (
	validBefore = 1 << (timeBits - 7) // 71 minutes
	validSpan   = 2 * validBefore

	// What is dead may have been so for maxDeath when a lap leaves it, and is looked at again by the end of the range. It is
	// readable until then.
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

// nowInRange is now, but never before the range. Entries are readable some time before it, and now may return such a time; but
// not if a staggered clock is behind that once more.
func (s *Store) nowInRange() int64 {
	now := s.clock.micros()
	if uint64(now-s.from.Load()) < validSpan {
		return now
	}
	return s.nowAfterJump(now)
}

// maxBehind is by how much a time may be before the range: a staggered clock is behind by up to a period. What others
// have written meanwhile is at most maxAhead after it.
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
		// The entries are readable by the time of the last lap, not by a time so much later. No time is valid until they
		// have all been looked at: decisions that are under way wait for us.
		s.from.Store(math.MaxInt64 / 2)
		for n := range s.shards {
			s.sweepShard(uint8(n), from+validBefore, now)
		}
		s.from.Store(now - validBefore)
	}
	return now
}

// janitor goes around the shards, some every second, until the store is closed.
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

// sweepShard forgets the dead of a shard, a segment at a time so that nobody waits for more than one.
func (s *Store) sweepShard(n uint8, ref, now int64) {
	sh := &s.shards[n]
	for i := 0; ; { // a directory that doubles meanwhile has what comes next behind i, and some of what was seen
		sh.mu.Lock()
		d := s.dirs[n].Load()
		if d == nil || i >= len(d.segments) || ref == now && !s.valid(now) {
			// If the clock has jumped meanwhile, entries are not readable at this time any more, and whoever noticed it has
			// swept them. While the shard is locked it cannot become so.
			sh.mu.Unlock()
			break
		}
		start := time.Now()
		g := d.segments[i]
		if found := g.survey(&s.layouts, ref, now, 0); found.stale || found.idle*8 >= len(g.slots) {
			sh.sweptAt(now)
			g.tidy(&sieve{layouts: &s.layouts, ref: ref, now: now, linger: lingerMicros})
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

// sweepWide forgets the dead among a shard's records, some at a time.
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
