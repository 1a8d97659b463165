package oracle

import "github.com/headgate/headgate"

// slidingLog lists consumed units with their times. They count for a period.
type slidingLog []struct{ at, units int64 }

func (s *slidingLog) used(l headgate.Limit, t int64) int64 {
	var sum int64
	for _, e := range *s {
		if e.at > t-l.Period.Microseconds() {
			sum += e.units
		}
	}
	return sum
}

// first tries the times at which an entry expires.
func (s *slidingLog) first(l headgate.Limit, now, maxUsed int64) int64 {
	if s.used(l, now) <= maxUsed {
		return now
	}
	for _, e := range *s { // oldest first
		if expiresAt := e.at + l.Period.Microseconds(); expiresAt > now && s.used(l, expiresAt) <= maxUsed {
			return expiresAt
		}
	}
	return 1<<63 - 1
}

func (s *slidingLog) add(_ headgate.Limit, now, n int64, _ uint64) {
	*s = append(*s, struct{ at, units int64 }{now, n})
}

// since returns the entries after the time t.
func (s *slidingLog) since(t int64) *slidingLog {
	later := new(slidingLog)
	for _, e := range *s {
		if e.at > t {
			*later = append(*later, e)
		}
	}
	return later
}

func (s *slidingLog) remove(_ headgate.Limit, _, n int64, r headgate.Receipt) {
	for i := range *s {
		if e := &(*s)[i]; e.at == r.At {
			back := min(n, e.units)
			e.units -= back
			n -= back
		}
	}
}

// concurrency lists the leases with their units and expiry.
type concurrency []lease

type lease struct {
	until, units int64
	name         uint64
}

func (c *concurrency) used(_ headgate.Limit, t int64) int64 {
	var sum int64
	for _, held := range *c {
		if held.until > t {
			sum += held.units
		}
	}
	return sum
}

// first tries the times at which a lease expires.
func (c *concurrency) first(l headgate.Limit, now, maxUsed int64) int64 {
	if c.used(l, now) <= maxUsed {
		return now
	}
	var first int64 = 1<<63 - 1
	for _, held := range *c {
		if held.until > now && held.until < first && c.used(l, held.until) <= maxUsed {
			first = held.until
		}
	}
	return first
}

func (c *concurrency) add(l headgate.Limit, now, n int64, name uint64) {
	ttl := l.TTL
	if ttl == 0 {
		ttl = headgate.DefaultTTL
	}
	*c = append(*c, lease{now + ttl.Microseconds(), n, name})
}

func (c *concurrency) remove(_ headgate.Limit, _, n int64, r headgate.Receipt) {
	for i := range *c {
		if held := &(*c)[i]; held.name == r.Lease {
			held.units = max(0, held.units-n)
		}
	}
}
