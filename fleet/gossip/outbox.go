package gossip

import (
	"cmp"
	"slices"
	"time"

	"github.com/headgate/headgate/fleet/internal/ledger"
)

// What is told, and how often. A total that is told six times does not reach a host that loses every fifth packet in one of
// 15,000 cases; most keys change before that and are then told again.
const (
	// maxOutbox is how many keys can be on their way at once: about 5 MB.
	maxOutbox = 16 << 10
	// maxHot is how many keys are looked at in every round. They have nicknames.
	maxHot = 2048
	// hotRate is how many units a second must be consumed of a key on this host for it to be hot, and coldAfter after how long
	// without any it is not any more.
	hotRate, coldAfter = 1, 5 * time.Second
	// wholeTells is how often a nickname is told with its meaning before it is used alone. Then it is told again after
	// wholeSoon and every wholeEvery, for those who have missed it.
	wholeTells            = 3
	wholeSoon, wholeEvery = time.Second, 5 * time.Second
	// nickSpan is how many nicknames in a row a host remembers of another.
	nickSpan = 4096
	// About how long tallies are in a packet.
	wholeSize, shortSize = 38, 13
	// keptFor is how long a key is remembered that was told often enough and is not hot.
	keptFor = time.Second
)

// againAfter is after how many rounds a total that stays as it is is told again. From wholeAgain on it is told whole, for
// those who have missed what its nickname means.
var againAfter = [...]int64{1, 2, 4, 20, 100}

const wholeAgain = 4

// An outgoing tally is one that is being told.
type outgoing struct {
	packetTally
	version uint32        // counts its totals
	tells   int           // how often the present one was told
	changed time.Duration // when that was first seen
	rate    float64       // how many units were consumed in a second, of late
	wholeAt time.Duration // when it was told whole last
	wholes  int           // how often its nickname was told with its meaning
	epoch   int           // of the fleet, when it was
	hot     int           // its place among the hot, or -1
}

// same reports whether a nickname for this tally means the other as well.
func (e *outgoing) same(t *ledger.Tally) bool {
	was := &e.tally
	return was.Start == t.Start && was.Window == t.Window && was.Offset == t.Offset && was.Reset == t.Reset && was.Limit == t.Limit
}

// warmth is its rate, less for one that has not changed for some time.
func (e *outgoing) warmth(now time.Duration) float64 {
	return e.rate / (1 + (now - e.changed).Seconds())
}

// whole reports whether it must be told with all that belongs to it.
func (e *outgoing) mustBeWhole(epoch int, now time.Duration) bool {
	since := now - e.wholeAt
	return e.nick == 0 || e.wholes < wholeTells || e.tells >= wholeAgain || e.epoch != epoch || since >= wholeEvery || e.wholes == wholeTells && since >= wholeSoon
}

// A waiting is an outgoing tally in line, unless its total has changed since.
type waiting struct {
	tally   *outgoing
	version uint32
	due     time.Duration
}

func (w *waiting) stale() bool { return w.version != w.tally.version }

// An outbox holds what this host has to tell: first what is hot, then what is new, and, as far as the bandwidth goes, what
// was told and may have been lost.
type outbox struct {
	interval time.Duration
	keys     map[ledger.Key]*outgoing
	hot      []*outgoing
	fresh    [2][]waiting               // those that are hot, and the others
	again    [len(againAfter)][]waiting // each in the order in which they are due
	kept     []waiting
	nick     uint64 // given last
	epoch    int    // counts the hosts that have come
	dice     func(int) int
	free     []*outgoing
	skipped  int64 // how often something was not told again for lack of bandwidth
}

func newOutbox(interval time.Duration, dice func(int) int) *outbox {
	return &outbox{interval: interval, keys: map[ledger.Key]*outgoing{}, dice: dice}
}

// room is how many more keys it takes now.
func (o *outbox) room() int { return max(maxOutbox-len(o.keys), 0) }

// waiting is how many are to be told for the first time, those included that have changed since.
func (o *outbox) waiting() int { return len(o.fresh[0]) + len(o.fresh[1]) }

// put takes what a key has come to at some uptime, to be told if that is new, or in any case.
func (o *outbox) put(t *ledger.Tally, anyway bool, uptime, now time.Duration) {
	e := o.keys[t.Key]
	switch {
	case e == nil:
		e = o.take()
		*e = outgoing{packetTally: packetTally{tally: *t}, version: e.version + 1, changed: now, hot: -1}
		o.keys[t.Key] = e
		e.rate = float64(t.Total) / max(uptime-t.Start, 2*time.Second).Seconds()
		o.heat(e, now)
	case !e.same(t): // its nickname means something else
		e.tally, e.nick = *t, 0
		e.version++
		e.tells, e.changed = 0, now
		if e.hot >= 0 {
			o.name(e)
		}
	default:
		more, waits := t.Total-e.tally.Total, e.tells == 0
		if more > 0 {
			o.warm(e, more, now)
		}
		e.tally = *t
		if waits || more <= 0 && !anyway {
			return
		}
		e.version++
		e.tells = 0
	}
	line := &o.fresh[1]
	if e.hot >= 0 {
		line = &o.fresh[0]
	}
	*line = append(*line, waiting{tally: e, version: e.version})
}

// warm notes that more was consumed of a key.
func (o *outbox) warm(e *outgoing, more int64, now time.Duration) {
	since := max(now-e.changed, time.Millisecond)
	e.rate += (float64(more)/since.Seconds() - e.rate) / 4
	e.changed = now
	o.heat(e, now)
}

// heat puts a key among the hot if it belongs there.
func (o *outbox) heat(e *outgoing, now time.Duration) {
	if e.hot >= 0 || e.rate < hotRate || len(o.hot) == maxHot && !o.oust(e.rate, now) {
		return
	}
	e.hot = len(o.hot)
	o.hot = append(o.hot, e)
	if e.nick == 0 {
		o.name(e)
	}
}

// oust makes room among the hot for one of that rate, if one of some is colder.
func (o *outbox) oust(rate float64, now time.Duration) bool {
	coldest := o.hot[o.dice(len(o.hot))]
	for range 15 {
		if e := o.hot[o.dice(len(o.hot))]; e.warmth(now) < coldest.warmth(now) {
			coldest = e
		}
	}
	if coldest.warmth(now)*1.5 > rate {
		return false
	}
	o.cool(coldest)
	return true
}

// cool takes a key from among the hot.
func (o *outbox) cool(e *outgoing) {
	last := o.hot[len(o.hot)-1]
	o.hot[e.hot], last.hot = last, e.hot
	o.hot = o.hot[:len(o.hot)-1]
	e.hot = -1
}

// hotKeys appends the keys that are hot, and lets go those that are not any more.
func (o *outbox) hotKeys(dst []ledger.Key, now time.Duration) []ledger.Key {
	for i := len(o.hot) - 1; i >= 0; i-- {
		if e := o.hot[i]; now-e.changed > coldAfter {
			o.cool(e)
		} else {
			dst = append(dst, e.tally.Key)
		}
	}
	return dst
}

// refresh brings a tally that is told now to what it is.
func (o *outbox) refresh(t *ledger.Tally) {
	if e := o.keys[t.Key]; e != nil && e.same(t) {
		e.tally = *t
	}
}

// name gives a key a nickname.
func (o *outbox) name(e *outgoing) {
	o.nick++
	e.nick, e.wholes = o.nick, 0
}

func (o *outbox) take() *outgoing {
	if n := len(o.free); n > 0 {
		e := o.free[n-1]
		o.free = o.free[:n-1]
		return e
	}
	return &outgoing{}
}

// choose appends to dst what is to be told now in about so many bytes: wholes first, then shorts by nickname.
func (o *outbox) choose(dst []*packetTally, size int, now time.Duration) []*packetTally {
	o.settle(now)
	cold := 0
	if len(o.fresh[1]) > 0 {
		cold = size / 8 // what is not hot has its part
	}
	reserve := min(o.due(now)*shortSize, size/8) // as has what is told again
	dst, left := o.tellFresh(dst, 0, size-cold-reserve, now)
	dst, left = o.tellFresh(dst, 1, left+cold, now)
	left += reserve
	for i := range o.again {
		dst, left = o.retell(dst, i, left, now)
	}
	for i := range o.fresh {
		dst, left = o.tellFresh(dst, i, left, now)
	}
	slices.SortFunc(dst, func(a, b *packetTally) int {
		switch {
		case a.short != b.short:
			if a.short {
				return 1
			}
			return -1
		case a.short:
			return cmp.Compare(a.nick, b.nick)
		default:
			return 0
		}
	})
	return dst
}

// tellFresh tells what is new as far as there is room.
func (o *outbox) tellFresh(dst []*packetTally, line, left int, now time.Duration) ([]*packetTally, int) {
	n := 0
	for ; n < len(o.fresh[line]) && left > 0; n++ {
		if w := &o.fresh[line][n]; !w.stale() && w.tally.tells == 0 {
			dst, left = o.tell(dst, w.tally, left, now)
		}
	}
	o.fresh[line] = slices.Delete(o.fresh[line], 0, n)
	return dst, left
}

// tell puts one tally among those told now, and in line for being told again.
func (o *outbox) tell(dst []*packetTally, e *outgoing, left int, now time.Duration) ([]*packetTally, int) {
	if e.nick != 0 && o.nick-e.nick >= nickSpan {
		e.nick = 0 // others have forgotten it
		if e.hot >= 0 {
			o.name(e)
		}
	}
	if e.short = !e.mustBeWhole(o.epoch, now); e.short {
		left -= shortSize
	} else {
		left -= wholeSize
		if e.epoch != o.epoch {
			e.epoch, e.wholes = o.epoch, 0
		}
		e.wholes++
		e.wholeAt = now
	}
	e.again = e.tells > 0
	e.tells++
	o.line(e, now)
	return append(dst, &e.packetTally), left
}

// line puts a tally that was told in line for the next time.
func (o *outbox) line(e *outgoing, now time.Duration) {
	w := waiting{tally: e, version: e.version}
	if i := e.tells - 1; i < len(o.again) {
		w.due = now + time.Duration(againAfter[i]*int64(o.interval)) - o.interval/2 // rounds are not punctual
		o.again[i] = append(o.again[i], w)
		return
	}
	w.due = now + keptFor
	o.kept = append(o.kept, w)
}

// retell tells again what is due in one of the lines, as far as there is room. What does not fit counts as told.
func (o *outbox) retell(dst []*packetTally, i, left int, now time.Duration) ([]*packetTally, int) {
	n := 0
	for ; n < len(o.again[i]) && o.again[i][n].due <= now; n++ {
		w := o.again[i][n]
		switch {
		case w.stale():
		case left > 0:
			dst, left = o.tell(dst, w.tally, left, now)
		default:
			o.skipped++
			w.tally.tells++
			o.line(w.tally, now)
		}
	}
	o.again[i] = slices.Delete(o.again[i], 0, n)
	return dst, left
}

// due is how many are due to be told again; those that have changed since are counted too.
func (o *outbox) due(now time.Duration) int {
	sum := 0
	for i := range o.again {
		n, _ := slices.BinarySearchFunc(o.again[i], now, func(w waiting, now time.Duration) int {
			if w.due <= now {
				return -1
			}
			return 1
		})
		sum += n
	}
	return sum
}

// settle forgets what has been told often enough some time ago.
func (o *outbox) settle(now time.Duration) {
	n := 0
	var again []waiting
	for ; n < len(o.kept) && (o.kept[n].due <= now || len(o.keys) > maxOutbox/2); n++ {
		w := &o.kept[n]
		if w.stale() {
			continue
		}
		if w.tally.hot >= 0 { // it is let go when it has cooled
			again = append(again, waiting{tally: w.tally, version: w.version, due: now + keptFor})
			continue
		}
		delete(o.keys, w.tally.tally.Key)
		w.tally.version++
		o.free = append(o.free, w.tally)
	}
	o.kept = append(slices.Delete(o.kept, 0, n), again...)
}
