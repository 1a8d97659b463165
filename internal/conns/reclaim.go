package conns

import (
	"math/bits"
	"net/netip"
	"time"
)

// A reason says why a connection was refused.
type reason string

const (
	nothing       reason = ""
	addressFull   reason = "address"     // its address has too many
	listenerFull  reason = "listener"    // there are too many
	noDescriptors reason = "descriptors" // the process has no file descriptors left for this listener
)

// retryAfter is how long nothing is tried again after nothing could be reclaimed. Without a pause, each connection of a
// flood would cost a look at all others.
const retryAfter = 100 * time.Millisecond

// makeRoom makes room for one more connection of a peer, and takes a descriptor for it. It returns why there is none, or
// nothing. c.mu is held, but not all of the time.
func (c *Conns) makeRoom(from *peer, now time.Duration) reason {
	if from != &c.exempt && from.count >= c.options.PerAddress && !c.reclaim(from, now) {
		return addressFull
	}
	if c.open >= c.options.Most && (!c.reclaimAny(from, now) || c.open >= c.options.Most) {
		return listenerFull
	}
	if !c.take() && (!c.reclaimAny(from, now) || !c.take()) {
		return noDescriptors
	}
	return nothing
}

// weights is how many classes of peers there are by how many connections they have: powers of two.
const weights = 32

// batch is how many connections are reclaimed at once, so that few connections of a flood cost a look at all.
func (c *Conns) batch() int { return max(1, min(c.options.Most/64, 64)) }

// reclaim closes some connections of a peer, and reports whether there were any. c.mu is held, but not all of the time.
func (c *Conns) reclaim(of *peer, now time.Duration) bool {
	if now-of.failed < retryAfter {
		return false
	}
	most := min(c.batch(), max(1, of.count/16))
	for conn := of.first; conn != nil && len(c.victimsOf[Denied][0]) < most; conn = conn.peerNext {
		if k := conn.kind(now); k != Busy && len(c.victimsOf[k][0]) < most {
			c.victimsOf[k][0] = append(c.victimsOf[k][0], conn)
		}
	}
	if c.closeVictims(most) {
		return true
	}
	of.failed = now
	return false
}

// reclaimAny closes some connections of addresses that have more than a peer, and reports whether there were any: those
// that were denied first, then unused and idle ones, and among these those of the addresses with the most. c.mu is held,
// but not all of the time.
func (c *Conns) reclaimAny(to *peer, now time.Duration) bool {
	if now-c.failed < retryAfter {
		return false
	}
	have := to.count
	if to == &c.exempt {
		have = 0
	}
	most := c.batch()
	for conn := c.oldest; conn != nil; conn = conn.next {
		weight := conn.peer.count
		if conn.peer == &c.exempt {
			weight = 1
		}
		if weight <= have {
			continue
		}
		if k := conn.kind(now); k != Busy {
			if of := &c.victimsOf[k][bits.Len(uint(weight))]; len(*of) < most {
				*of = append(*of, conn)
			}
		}
	}
	if c.closeVictims(most) {
		return true
	}
	c.failed = now
	return false
}

// closeVictims closes up to so many of those that were found, and reports whether it has closed any. c.mu is held, but not
// while connections are closed, which may take until their reader has noticed.
func (c *Conns) closeVictims(most int) bool {
	var found []*Conn
	for k := kinds - 1; k > int(Busy); k-- {
		for w := weights - 1; w >= 0; w-- {
			for _, conn := range c.victimsOf[k][w] {
				if len(found) < most && conn.claim(Kind(k)) {
					c.unlink(conn)
					found = append(found, conn)
				}
			}
			clear(c.victimsOf[k][w])
			c.victimsOf[k][w] = c.victimsOf[k][w][:0]
		}
	}
	if len(found) == 0 {
		return false
	}
	c.counts.Reclaimed += int64(len(found))
	c.report.reclaimed += int64(len(found))
	c.mu.Unlock()
	for _, conn := range found {
		_ = conn.Conn.Close()
	}
	c.mu.Lock()
	return true
}

// reportEvery is how often the log gets a line.
const reportEvery = 10 * time.Second

// A report is what the next line of the log says.
type report struct {
	told               time.Time
	refused, reclaimed int64
}

// note counts a connection that was refused, and tells the log from time to time. c.mu is held.
func (c *Conns) note(why reason, addr netip.Addr, has int) {
	r := &c.report
	r.refused++
	now := time.Now()
	if now.Sub(r.told) < reportEvery {
		return
	}
	c.options.Logger.Warn("too many connections, refusing new ones",
		"listener", c.options.Name, "reason", string(why), "address", addr.String(), "address_has", has,
		"address_limit", c.options.PerAddress, "open", c.open, "limit", c.options.Most, "refused", r.refused, "reclaimed", r.reclaimed)
	*r = report{told: now}
}
