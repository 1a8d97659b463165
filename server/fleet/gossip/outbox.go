package gossip

import (
	"cmp"
	"slices"
	"time"

	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// These constants determine what is sent, and how often. A total is sent up to six times, so a host that loses every
// fifth packet misses one total in 15,000. Most keys change earlier, and are then sent again anyway.
//
// An alias is a number that replaces the fields of a tally that rarely change. A whole tally has all fields; a short
// tally has the alias instead.
const (
	// maxOutbox is the maximum number of keys in the outbox. They take about 5 MB.
	maxOutbox = 16 << 10
	// maxHot is the maximum number of hot keys. They have aliases, and are checked in every round.
	maxHot = 2048
	// hotRate is the minimum consumption of a hot key on this host, in units per second.
	hotRate = 1
	// coldAfter is the time without consumption after which a key is no longer hot.
	coldAfter = 5 * time.Second
	// minAliasSends is the number of times that a tally is sent whole, with its alias, before it is sent short. Hosts may
	// miss all of these, so the tally is sent whole again after secondWhole, and then every wholeInterval.
	minAliasSends = 3
	secondWhole   = time.Second
	wholeInterval = 5 * time.Second
	// aliasSpan is the number of latest aliases of a host that other hosts remember.
	aliasSpan = 4096
	// The approximate sizes of tallies in a packet, in bytes.
	wholeSize, shortSize = 38, 13
	// finishedFor is the time for which a key that is not hot stays in the outbox after the last resend of its total.
	finishedFor = time.Second
)

// resendAfter has, for each resend of an unchanged total, the number of rounds since the previous send.
var resendAfter = [...]int64{1, 2, 4, 20, 100}

// wholeResends is the number of sends of a total after which it is sent whole, because hosts may have missed its alias.
const wholeResends = 4

// An outgoingTally is a tally in the outbox.
type outgoingTally struct {
	packetTally
	version     uint32        // grows with each new total
	sends       int           // how often the current total was sent
	changed     time.Duration // when the total last changed
	rate        float64       // recent units per second
	wholeSentAt time.Duration // when the tally was last sent whole
	aliasSends  int           // how often the tally was sent whole with its current alias
	generation  int           // outbox.generation when the tally was last sent whole
	hot         int           // index among the hot keys, or -1
}

// sharesAlias reports whether t can have the same alias as this tally, because the fields that it replaces are equal.
func (e *outgoingTally) sharesAlias(t *tally.Tally) bool {
	ours := &e.tally
	return ours.Start == t.Start && ours.Window == t.Window && ours.Offset == t.Offset && ours.Reset == t.Reset &&
		ours.Limit == t.Limit
}

// heat returns the rate of a key, lowered if it has not changed for some time.
func (e *outgoingTally) heat(now time.Duration) float64 {
	return e.rate / (1 + (now - e.changed).Seconds())
}

// needsWhole reports whether the tally must be sent whole, because other hosts may not know its alias.
func (e *outgoingTally) needsWhole(generation int, now time.Duration) bool {
	since := now - e.wholeSentAt
	return e.alias == 0 || e.aliasSends < minAliasSends || e.sends >= wholeResends || e.generation != generation ||
		since >= wholeInterval || e.aliasSends == minAliasSends && since >= secondWhole
}

// A queueEntry is an outgoing tally in a queue. It is stale if the total has changed since then; the new total has its
// own entry.
type queueEntry struct {
	tally   *outgoingTally
	version uint32
	due     time.Duration
}

func (entry *queueEntry) isStale() bool { return entry.version != entry.tally.version }

// An outbox has the totals that this host has to send. New totals of hot keys come first, then other new totals. The
// remaining bandwidth is used to send totals again, because packets may be lost.
type outbox struct {
	interval   time.Duration
	keys       map[tally.Key]*outgoingTally
	hot        []*outgoingTally
	unsent     [2][]queueEntry                // the queues hotQueue and coldQueue
	resends    [len(resendAfter)][]queueEntry // a queue for each resend, in the order in which entries are due
	finished   []queueEntry                   // totals after their last resend
	lastAlias  uint64                         // the alias that was assigned last
	generation int                            // increases when a host joins, which knows no aliases
	randomInt  func(n int) int
	skipped    int64 // resends that were skipped for lack of bandwidth
}

// hotQueue and coldQueue are the indices in outbox.unsent of the queues of hot keys and of other keys.
const hotQueue, coldQueue = 0, 1

func newOutbox(interval time.Duration, randomInt func(n int) int) *outbox {
	return &outbox{interval: interval, keys: map[tally.Key]*outgoingTally{}, randomInt: randomInt}
}

// room returns how many more keys can be added.
func (o *outbox) room() int { return max(maxOutbox-len(o.keys), 0) }

// waiting returns how many totals were not sent yet, including stale ones.
func (o *outbox) waiting() int { return len(o.unsent[hotQueue]) + len(o.unsent[coldQueue]) }

// put adds the tally of a key, as read at an uptime of the ledger. The tally is sent if its total is new, or if always
// is set.
func (o *outbox) put(t *tally.Tally, always bool, uptime, now time.Duration) {
	e := o.keys[t.Key]
	switch {
	case e == nil:
		e = &outgoingTally{packetTally: packetTally{tally: *t, readAt: uptime}, changed: now, hot: -1}
		o.keys[t.Key] = e
		e.rate = float64(t.Total) / max(uptime-t.Start, 2*time.Second).Seconds()
		o.addHot(e, now)
	case !e.sharesAlias(t): // the fields that the alias replaces have changed
		e.tally, e.readAt, e.alias = *t, uptime, 0
		e.version++
		e.sends, e.changed = 0, now
		if e.hot >= 0 {
			o.assignAlias(e)
		}
	default:
		growth, isQueued := t.Total-e.tally.Total, e.sends == 0
		if growth > 0 {
			o.updateRate(e, growth, now)
		}
		e.tally, e.readAt = *t, uptime
		if isQueued || growth <= 0 && !always {
			return
		}
		e.version++
		e.sends = 0
	}
	queue := &o.unsent[coldQueue]
	if e.hot >= 0 {
		queue = &o.unsent[hotQueue]
	}
	*queue = append(*queue, queueEntry{tally: e, version: e.version})
}

// updateRate records that the total of a key has grown. The rate is a moving average.
func (o *outbox) updateRate(e *outgoingTally, growth int64, now time.Duration) {
	since := max(now-e.changed, time.Millisecond)
	e.rate += (float64(growth)/since.Seconds() - e.rate) / 4
	e.changed = now
	o.addHot(e, now)
}

// addHot makes a key hot if its rate is high enough.
func (o *outbox) addHot(e *outgoingTally, now time.Duration) {
	if e.hot >= 0 || e.rate < hotRate || len(o.hot) == maxHot && !o.makeRoomFor(e.rate, now) {
		return
	}
	e.hot = len(o.hot)
	o.hot = append(o.hot, e)
	if e.alias == 0 {
		o.assignAlias(e)
	}
}

// makeRoomFor makes room among the hot keys for a key with the given rate, and reports whether there is room. It
// samples some hot keys, and removes the coldest of them if the rate is at least 1.5 times as high as that key's heat.
func (o *outbox) makeRoomFor(rate float64, now time.Duration) bool {
	coldest := o.hot[o.randomInt(len(o.hot))]
	for range 15 {
		if e := o.hot[o.randomInt(len(o.hot))]; e.heat(now) < coldest.heat(now) {
			coldest = e
		}
	}
	if coldest.heat(now)*1.5 > rate {
		return false
	}
	o.removeHot(coldest)
	return true
}

// removeHot makes a key no longer hot.
func (o *outbox) removeHot(e *outgoingTally) {
	last := o.hot[len(o.hot)-1]
	o.hot[e.hot], last.hot = last, e.hot
	o.hot = o.hot[:len(o.hot)-1]
	e.hot = -1
}

// hotTallies appends the stored tallies of hot keys to dst. It first removes keys that are no longer hot.
func (o *outbox) hotTallies(dst []*tally.Tally, now time.Duration) []*tally.Tally {
	for i := len(o.hot) - 1; i >= 0; i-- {
		if e := o.hot[i]; now-e.changed > coldAfter {
			o.removeHot(e)
		} else {
			dst = append(dst, &e.tally)
		}
	}
	return dst
}

// refresh replaces the stored tally of a key, which is about to be sent, by a newer one.
func (o *outbox) refresh(t *tally.Tally, uptime time.Duration) {
	if e := o.keys[t.Key]; e != nil && e.sharesAlias(t) {
		e.tally, e.readAt = *t, uptime
	}
}

// assignAlias gives a key an alias.
func (o *outbox) assignAlias(e *outgoingTally) {
	o.lastAlias++
	e.alias, e.aliasSends = o.lastAlias, 0
}

// choose appends the tallies to send in this round to dst, about size bytes in total. Whole tallies come first, then
// short tallies in the order of their aliases.
func (o *outbox) choose(dst []*packetTally, size int, now time.Duration) []*packetTally {
	o.dropFinished(now)
	cold := 0
	if len(o.unsent[coldQueue]) > 0 {
		cold = size / 8 // bytes that are reserved for keys that are not hot
	}
	reserve := min(o.countDue(now)*shortSize, size/8) // bytes that are reserved for resends
	dst, left := o.chooseUnsent(dst, hotQueue, size-cold-reserve, now)
	dst, left = o.chooseUnsent(dst, coldQueue, left+cold, now)
	left += reserve
	for i := range o.resends {
		dst, left = o.chooseResends(dst, i, left, now)
	}
	for i := range o.unsent {
		dst, left = o.chooseUnsent(dst, i, left, now)
	}
	slices.SortFunc(dst, func(a, b *packetTally) int { return cmp.Compare(a.shortAlias(), b.shortAlias()) })
	return dst
}

// chooseUnsent adds tallies from a queue of unsent totals until left bytes are used.
func (o *outbox) chooseUnsent(dst []*packetTally, queue, left int, now time.Duration) ([]*packetTally, int) {
	n := 0
	for ; n < len(o.unsent[queue]) && left > 0; n++ {
		if entry := &o.unsent[queue][n]; !entry.isStale() && entry.tally.sends == 0 {
			dst, left = o.chooseOne(dst, entry.tally, left, now)
		}
	}
	o.unsent[queue] = slices.Delete(o.unsent[queue], 0, n)
	return dst, left
}

// chooseOne adds one tally, and queues its next resend. It returns dst and the number of bytes that are left.
func (o *outbox) chooseOne(dst []*packetTally, e *outgoingTally, left int, now time.Duration) ([]*packetTally, int) {
	if e.alias != 0 && o.lastAlias-e.alias >= aliasSpan {
		e.alias = 0 // other hosts have forgotten the alias
		if e.hot >= 0 {
			o.assignAlias(e)
		}
	}
	if e.short = !e.needsWhole(o.generation, now); e.short {
		left -= shortSize
	} else {
		left -= wholeSize
		if e.generation != o.generation {
			e.generation, e.aliasSends = o.generation, 0
		}
		e.aliasSends++
		e.wholeSentAt = now
	}
	e.sends++
	o.queueResend(e, now)
	return append(dst, &e.packetTally), left
}

// queueResend queues a sent tally for its next resend or, after the last resend, as finished.
func (o *outbox) queueResend(e *outgoingTally, now time.Duration) {
	entry := queueEntry{tally: e, version: e.version}
	if i := e.sends - 1; i < len(o.resends) {
		// Half an interval less, because rounds vary in length.
		entry.due = now + time.Duration(resendAfter[i]*int64(o.interval)) - o.interval/2
		o.resends[i] = append(o.resends[i], entry)
		return
	}
	entry.due = now + finishedFor
	o.finished = append(o.finished, entry)
}

// chooseResends adds tallies whose i-th resend is due, until left bytes are used. The i-th resend of the other due
// tallies is skipped.
func (o *outbox) chooseResends(dst []*packetTally, i, left int, now time.Duration) ([]*packetTally, int) {
	n := 0
	for ; n < len(o.resends[i]) && o.resends[i][n].due <= now; n++ {
		entry := o.resends[i][n]
		switch {
		case entry.isStale():
		case left > 0:
			dst, left = o.chooseOne(dst, entry.tally, left, now)
		default:
			o.skipped++
			entry.tally.sends++ // so that queueResend queues the next resend
			o.queueResend(entry.tally, now)
		}
	}
	o.resends[i] = slices.Delete(o.resends[i], 0, n)
	return dst, left
}

// countDue returns how many resends are due, including stale ones.
func (o *outbox) countDue(now time.Duration) int {
	sum := 0
	for i := range o.resends {
		n, _ := slices.BinarySearchFunc(o.resends[i], now, func(entry queueEntry, now time.Duration) int {
			if entry.due <= now {
				return -1
			}
			return 1
		})
		sum += n
	}
	return sum
}

// dropFinished drops keys whose last resend was some time ago. If the outbox is more than half full, it drops them
// earlier.
func (o *outbox) dropFinished(now time.Duration) {
	n := 0
	var again []queueEntry
	for ; n < len(o.finished) && (o.finished[n].due <= now || len(o.keys) > maxOutbox/2); n++ {
		entry := &o.finished[n]
		if entry.isStale() {
			continue
		}
		if entry.tally.hot >= 0 { // drop the key later, when it is no longer hot
			again = append(again, queueEntry{tally: entry.tally, version: entry.version, due: now + finishedFor})
			continue
		}
		delete(o.keys, entry.tally.tally.Key)
		entry.tally.version++ // makes its entries in other queues stale
	}
	o.finished = append(slices.Delete(o.finished, 0, n), again...)
}
