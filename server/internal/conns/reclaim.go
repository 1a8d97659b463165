package conns

import (
	"math/bits"
	"net/netip"
	"time"
)

// A refusal is the reason why a connection is refused.
type refusal string

const (
	notRefused    refusal = ""
	addressFull   refusal = "address"     // the address has too many connections
	listenerFull  refusal = "listener"    // the listener has too many connections
	noDescriptors refusal = "descriptors" // no file descriptor is left for this listener
)

// retryAfter is the pause after a failed attempt to reclaim connections. Without it, each new connection of a flood
// would cost a search through all connections.
const retryAfter = 100 * time.Millisecond

// makeRoom makes room for one more connection of a peer, and takes a descriptor for it. If this is impossible, it
// returns the reason, otherwise notRefused. c.mu is held, but may be released during the call.
func (c *Conns) makeRoom(p *peer, now time.Duration) refusal {
	if p != &c.exempt && p.conns.Len() >= c.options.PerAddress && !c.reclaim(p, now) {
		return addressFull
	}
	if c.open >= c.options.Max && (!c.reclaimAny(p, now) || c.open >= c.options.Max) {
		return listenerFull
	}
	if !c.takeDescriptor() && (!c.reclaimAny(p, now) || !c.takeDescriptor()) {
		return noDescriptors
	}
	return notRefused
}

// weightClasses is the number of weight classes. The weight of a connection is the number of connections of its peer;
// each power of two is a class.
const weightClasses = 32

// batch returns how many connections are reclaimed together. Each search reclaims several connections, so that not
// every new connection of a flood costs a search.
func (c *Conns) batch() int { return max(1, min(c.options.Max/64, 64)) }

// reclaim closes some connections of a peer, and reports whether it has closed any. c.mu is held, but may be released
// during the call.
func (c *Conns) reclaim(p *peer, now time.Duration) bool {
	if now-p.reclaimFailed < retryAfter {
		return false
	}
	limit := min(c.batch(), max(1, p.conns.Len()/16))
	for e := p.conns.Front(); e != nil && len(c.candidates[Denied][0]) < limit; e = e.Next() {
		conn := e.Value.(*Conn)
		if k := conn.kind(now); k != Busy && len(c.candidates[k][0]) < limit {
			c.candidates[k][0] = append(c.candidates[k][0], conn)
		}
	}
	if c.closeCandidates(limit) {
		return true
	}
	p.reclaimFailed = now
	return false
}

// reclaimAny closes some connections of peers that have more connections than p, and reports whether it has closed any.
// It closes denied connections first, then unused, then idle ones. Within each kind, it closes those of the peers with
// the most connections first. c.mu is held, but may be released during the call.
func (c *Conns) reclaimAny(p *peer, now time.Duration) bool {
	if now-c.reclaimFailed < retryAfter {
		return false
	}
	minWeight := p.conns.Len() + 1
	if p == &c.exempt {
		minWeight = 1
	}
	limit := c.batch()
	for e := c.all.Front(); e != nil; e = e.Next() {
		conn := e.Value.(*Conn)
		weight := conn.peer.conns.Len()
		if conn.peer == &c.exempt {
			weight = 1
		}
		if weight < minWeight {
			continue
		}
		if k := conn.kind(now); k != Busy {
			if list := &c.candidates[k][bits.Len(uint(weight))]; len(*list) < limit {
				*list = append(*list, conn)
			}
		}
	}
	if c.closeCandidates(limit) {
		return true
	}
	c.reclaimFailed = now
	return false
}

// closeCandidates closes up to limit of the connections in c.candidates, and reports whether it has closed any. c.mu is
// held, but released while connections are closed, because Close may block until the reader of the connection has
// noticed.
func (c *Conns) closeCandidates(limit int) bool {
	var chosen []*Conn
	for k := kinds - 1; k > int(Busy); k-- {
		for w := weightClasses - 1; w >= 0; w-- {
			for _, conn := range c.candidates[k][w] {
				if len(chosen) < limit && conn.claim(Kind(k)) {
					c.unlink(conn)
					chosen = append(chosen, conn)
				}
			}
			clear(c.candidates[k][w])
			c.candidates[k][w] = c.candidates[k][w][:0]
		}
	}
	if len(chosen) == 0 {
		return false
	}
	c.counts.Reclaimed += int64(len(chosen))
	c.report.reclaimed += int64(len(chosen))
	c.mu.Unlock()
	for _, conn := range chosen {
		_ = conn.Conn.Close()
	}
	c.mu.Lock()
	return true
}

// reportEvery is the minimum time between two log lines.
const reportEvery = 10 * time.Second

// A report has the counts for the next log line.
type report struct {
	logged             time.Time
	refused, reclaimed int64
}

// recordRefusal counts a refused connection of an address that has count other connections. It logs the counts at most
// once per reportEvery. c.mu is held.
func (c *Conns) recordRefusal(reason refusal, addr netip.Addr, count int) {
	r := &c.report
	r.refused++
	now := time.Now()
	if now.Sub(r.logged) < reportEvery {
		return
	}
	c.options.Logger.Warn("too many connections, refusing new ones",
		"listener", c.options.Name, "reason", string(reason), "address", addr.String(), "address_has", count,
		"address_limit", c.options.PerAddress, "open", c.open, "limit", c.options.Max,
		"refused", r.refused, "reclaimed", r.reclaimed)
	*r = report{logged: now}
}
