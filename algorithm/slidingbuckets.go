package algorithm

import "github.com/headgate/headgate"

// slidingBuckets divides the period into N clock-aligned buckets and admits Count units in the current bucket and the
// N−1 before it. These N buckets cover up to one bucket less than the last period. So it can admit too much, but at
// most the units of the one bucket that no longer counts. It never admits more than Count in any Period·(N−1)/N.
type slidingBuckets struct{ direct }

// A state of slidingBuckets holds a head with the width of a bucket, the time of the latest take, charge or refund, and
// a ring of counts. Buckets are numbered from 1970 on; bucket i has the index i modulo N in the ring.
const (
	ringLatest = iota + 1
	ringCounts
)

// A ring is a read-only view of a state at a given time.
type ring struct {
	counts  []int64
	newest  int64 // number of the newest bucket that was written
	current int64 // number of the bucket that contains time; not before newest
	time    int64 // µs
}

// bucketOf returns the number of the bucket that contains a time.
func (p *Plan) bucketOf(t int64) int64 { return floorTo(t, p.width) / p.width }

// ringAt returns the ring at now, or at the latest time of the state if that is later.
func (p *Plan) ringAt(s State, now int64) ring {
	if len(s) == 0 {
		bucket := p.bucketOf(now)
		return ring{newest: bucket, current: bucket, time: now}
	}
	at := max(now, s[ringLatest])
	return ring{counts: s[ringCounts:], newest: p.bucketOf(s[ringLatest]), current: p.bucketOf(at), time: at}
}

// newRing returns an empty ring. It reuses the memory of s if that is large enough.
func (p *Plan) newRing(s State, latest int64) State {
	if words := p.Words(); cap(s) >= words {
		s = s[:words]
		clear(s)
	} else {
		s = make(State, words)
	}
	s[headWord], s[ringLatest] = p.head, latest
	return s
}

// oldest returns the number of the first bucket that still counts.
func (r ring) oldest() int64 { return r.current - int64(len(r.counts)) + 1 }

// at returns the count of bucket i, for i from oldest to newest.
func (r ring) at(i int64) int64 { return r.counts[modulo(i, int64(len(r.counts)))] }

// modulo returns the remainder of i/n from 0 to n−1, also for the negative numbers of buckets before 1970.
func modulo(i, n int64) int64 {
	if i %= n; i < 0 {
		i += n
	}
	return i
}

// used returns the units that count: those of all buckets that were written, except those that have since expired.
func (r ring) used() (sum int64) {
	for _, count := range r.counts {
		sum += count
	}
	for i := r.newest - int64(len(r.counts)) + 1; i < r.oldest() && i <= r.newest; i++ {
		sum -= r.at(i)
	}
	return sum
}

// admitTime returns when at most room of the used units will count.
func (r ring) admitTime(p *Plan, used, room int64) int64 {
	i := r.oldest()
	for ; i <= r.newest; i++ {
		if used -= r.at(i); used <= room {
			break
		}
	}
	return (i + p.buckets) * p.width
}

// resetTime returns when no unit of the ring will count any more, or now if none counts.
func (r ring) resetTime(p *Plan, now int64) int64 {
	for i := r.newest; i >= r.oldest(); i-- {
		if r.at(i) > 0 {
			return (i + p.buckets) * p.width
		}
	}
	return now
}

// describe writes the decision about n units to the zero d.
func (r ring) describe(d *headgate.Decision, p *Plan, now, n int64) {
	used := r.used()
	d.Allowed, d.Limit = used+n <= p.capacity, p.capacity
	switch {
	case !d.Allowed:
		d.RetryAfter = micros(r.admitTime(p, used, p.capacity-n) - now)
		d.ResetAfter = micros(r.resetTime(p, now) - now)
	case n > 0:
		d.Receipt = headgate.Receipt{At: r.time, Units: n}
		d.ResetAfter = micros((r.current+p.buckets)*p.width - now)
	default:
		d.ResetAfter = micros(r.resetTime(p, now) - now)
	}
	d.Remaining = p.capacity - used - n
	if !d.Allowed {
		d.Remaining += n
	}
}

// advanceRing moves a state to now, or to its latest time if that is later, and clears the buckets that no longer
// count. It returns the number of the current bucket.
func (p *Plan) advanceRing(s State, now int64) (State, int64) {
	if len(s) == 0 {
		return p.newRing(s, now), p.bucketOf(now)
	}
	newest, at := p.bucketOf(s[ringLatest]), max(now, s[ringLatest])
	bucket := p.bucketOf(at)
	for i := newest + 1; i <= min(bucket, newest+p.buckets); i++ {
		s[ringCounts+modulo(i, p.buckets)] = 0
	}
	s[ringLatest] = at
	return s, bucket
}

func (slidingBuckets) decide(p *Plan, s State, now, n int64) (d headgate.Decision) {
	p.ringAt(s, now).describe(&d, p, now, n)
	return d
}

func (slidingBuckets) takeInto(d *headgate.Decision, p *Plan, s State, now, n int64) State {
	p.ringAt(s, now).describe(d, p, now, n)
	if !d.Allowed {
		return s
	}
	s, bucket := p.advanceRing(s, now)
	s[ringCounts+modulo(bucket, p.buckets)] += n
	return s
}

func (b slidingBuckets) charge(p *Plan, s State, now, n int64) (State, headgate.Decision) {
	s, bucket := p.advanceRing(s, now)
	n = min(n, max(0, p.maxConsumed-p.ringAt(s, now).used()))
	s[ringCounts+modulo(bucket, p.buckets)] += n
	d := b.decide(p, s, now, 0)
	d.RetryAfter = 0 // the units were taken, so there is nothing to retry
	d.Receipt = headgate.Receipt{At: s[ringLatest], Units: n}
	return s, d
}

func (slidingBuckets) give(p *Plan, s State, now, n int64, r headgate.Receipt) State {
	s, newest := p.advanceRing(s, now)
	if i := p.bucketOf(r.At); i > newest-p.buckets && i <= newest {
		count := &s[ringCounts+modulo(i, p.buckets)]
		*count = max(0, *count-n)
	}
	return s
}

func (slidingBuckets) kind() Kind { return KindSlidingBuckets }

func (slidingBuckets) words(p *Plan) (initial, growth int) { return ringCounts + int(p.buckets), 0 }

func (slidingBuckets) prepare(p *Plan) {
	p.buckets = int64(p.limit.Buckets)
	if p.buckets == 0 {
		p.buckets = headgate.DefaultBuckets
	}
	p.width = p.period / p.buckets
}

func (slidingBuckets) restore(p *Plan, s State) {
	p.width, p.buckets = p.period, int64(len(s)-ringCounts)
}

func (slidingBuckets) consumed(p *Plan, s State, now int64) (at, units int64) {
	at = s[ringLatest]
	return consumption(at, now, p.ringAt(s, at).used(), p.ringAt(s, now).used())
}

func (slidingBuckets) newState(p *Plan, at, units int64) State {
	s := p.newRing(nil, at)
	s[ringCounts+modulo(p.bucketOf(at), p.buckets)] = units
	return s
}

func (slidingBuckets) luaArgs(p *Plan, _ int64, _ uint64) (a, b int64) { return p.width, p.buckets }

func (slidingBuckets) lua() luaIncludes { return luaIncludes{shared: []string{"exact", "store"}} }
