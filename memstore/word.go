package memstore

import (
	"math/bits"

	"github.com/headgate/headgate/algorithm"
)

// A state word holds an algorithm.Pair in 64 bits, so that a decision needs only one compare-and-swap:
//
//	bit 63      held: a holder of the shard's lock is about to change or move the entry
//	bit 62      denied: the key was denied since it last drained; such a key is not evicted
//	bit 61      claimed: a TakeAll without locks is about to change the entry (see claim.go); held is set too
//	bits 22–60  Pair.Time in µs, modulo 2^39 (6 days)
//	bits 0–21   Pair.Units and, above them, Pair.Last as the time since Pair.Time
//
// The limit determines how many of the last 22 bits are units, and in which grain the time above them is counted: see
// layout.
//
// The times and units are sealed: XORed with the tag of the key, so that the words of two keys with the same pair
// differ. If a slot gets another key after a goroutine has read its word, the goroutine's swap therefore fails. The
// times and units are also XORed with a salt of the layout, so that a swap fails if the word was rewritten under
// another limit.
//
// Times that are 6 days apart look the same. They are not confused, because no state lives longer than maxLife, and
// sweeps drop dead entries soon enough (see sweep.go).
const (
	heldBit    = 1 << 63
	deniedBit  = 1 << 62
	claimedBit = 1 << 61

	fieldBits = 22
	timeBits  = 39
	fieldMask = 1<<fieldBits - 1
	timeMask  = 1<<timeBits - 1

	maxAhead = 3 << (timeBits - 4) // µs by which a time may be after now: 28 hours
	maxLife  = 3 << (timeBits - 2) // µs: 4.7 days
	maxDeath = 1 << (timeBits - 7) // µs for which a dead entry may stay: 71 minutes
)

// age returns the time from that of an unsealed word to now, in µs. It is negative if the word's time is after now.
func age(word uint64, now int64) int64 {
	return int64((uint64(now)-word>>fieldBits+maxAhead)&timeMask) - maxAhead
}

// deniedLife returns how long a denied key is kept if its state drains within us microseconds: a quarter longer. A
// client far above its limit is denied again within that time, so its key is always protected from eviction.
func deniedLife(us int64) int64 { return us + us/4 }

// A tag word has the tag of the entry's key, which is 52 bits of its hash, and in the low bits the id of the layout of
// the state word. Another 8 bits of the hash are the number of the shard. The tag word of a free slot is 0.
const (
	layoutBits = 12
	layoutMask = 1<<layoutBits - 1

	// tombstone is the tag of an entry that was dropped or moved to a record. No key has it: tagOf never returns it.
	tombstone = 1<<(64-layoutBits) - 1
)

// tagOf returns the part of a hash that is in the tag word. It never returns 0 or tombstone.
func tagOf(hash uint64) uint64 {
	tag := hash & tombstone
	if tag-1 >= tombstone-1 { // tag is 0 or tombstone; 0 − 1 is the largest uint64
		return 1
	}
	return tag
}

// A layout describes how a state word holds a pair. Limits with the same algorithm.StateFormat whose capacities have
// the same number of bits share a layout.
//
// The word of a bucket has Pair.Time, and the time from Pair.Time to Pair.Last in multiples of a grain. The fewer bits
// the units need, the finer the grain is. Last is rounded up, by less than the time in which one unit drains: after a
// change of limit, the new rate applies from the end of the grain on.
type layout struct {
	id        uint64 // in the tag words of its entries
	salt      uint64 // with the tag, seals the state words
	unitMask  uint64
	grainMask int64 // a grain minus 1 µs
	unitBits  uint8
	grain     uint8 // a grain is 2^grain µs
	// life is a time in µs: the time in which one unit of a bucket drains or, if bit 7 is set, the period of a window.
	// Bits 1–6 are an exponent of two, and bit 0 adds one half. It is rounded up: it says when an entry may be dropped,
	// and has no effect on decisions.
	life uint8
}

const (
	windowBit = 1 << 7
	noGrain   = 63 // the word has no time of the latest decision
)

// layoutOf returns the layout of a plan's words, without its id. It returns false if words cannot hold the plan's
// states. A word with a layout may still have no room for a debt.
func layoutOf(p *algorithm.Plan) (l layout, fits bool) {
	if !p.IsPair() {
		return l, false
	}
	us := p.Life(1)
	if p.Kind() == algorithm.KindFixedWindow {
		if p.Limit().Staggered {
			if us > maxBehind {
				return l, false
			}
			us *= 2 // its times are behind by up to a period
		}
		l.life = windowBit | lifeFor(us)
		l.set(fieldBits, noGrain)
		return l, p.Capacity() <= fieldMask && lifeTime(l.life) <= maxLife
	}
	units, micros := p.Rate()
	room := p.Capacity() + units // units that have drained since the anchor are still in the pair
	unitBits := bits.Len64(uint64(room))
	grain := max(0, bits.Len64(uint64(micros))-(fieldBits-unitBits)) // rounding up may result in a whole period
	l.life = lifeFor(us)
	l.set(uint8(unitBits), uint8(grain))
	return l, unitBits <= fieldBits && lifeTime(l.life) <= maxLife/room && (grain == 0 || units <= micros>>grain)
}

// set sets the fields that follow from the number of bits for units and from the grain.
func (l *layout) set(unitBits, grain uint8) {
	l.unitBits, l.grain = unitBits, grain
	l.unitMask = 1<<unitBits - 1
	if grain != noGrain {
		l.grainMask = 1<<grain - 1
	}
}

// holds reports whether a pair fits a word: its units are not too many, and drain within maxLife.
func (l *layout) holds(p algorithm.Pair) bool {
	if l.life&windowBit == 0 && p.Units > maxLife/lifeTime(l.life) {
		return false
	}
	return uint64(p.Units) <= l.unitMask && uint64(p.Last-p.Time+l.grainMask)>>l.grain <= fieldMask>>l.unitBits
}

// seal returns the state word of a pair, for the key with a tag.
func (l *layout) seal(tag uint64, p algorithm.Pair) uint64 {
	after := uint64(p.Last-p.Time+l.grainMask) >> (l.grain & 63) << (l.unitBits & 63)
	return (uint64(p.Time)&timeMask<<fieldBits | after | uint64(p.Units)) ^ tag ^ l.salt
}

// unseal returns the pair in the state word of a key. The pair's time must be less than maxAhead after now and less
// than 2^39 − maxAhead before now. Last is rounded up to a grain. A word without units belongs to an entry that is
// being added.
func (l *layout) unseal(tag, word uint64, now int64) algorithm.Pair {
	word ^= tag ^ l.salt
	units := int64(word & l.unitMask)
	if units == 0 {
		return algorithm.Pair{}
	}
	time := now - age(word, now)
	since := int64(word & fieldMask >> (l.unitBits & 63) << (l.grain & 63))
	return algorithm.Pair{Time: time, Units: units, Last: time + since}
}

// clampLast corrects a Last that was rounded up to a time after now. If Last is after now by a grain or more, the clock
// has gone back, and clampLast changes nothing.
func (l *layout) clampLast(p algorithm.Pair, now int64) algorithm.Pair {
	if p.Last-l.grainMask <= now {
		p.Last = max(p.Time, min(p.Last, now))
	}
	return p
}

// lifeFor returns the shortest life of at least us microseconds, or the longest life if none is that long.
func lifeFor(us int64) (life uint8) {
	if us > 1 {
		// 2^bits.Len64(us−1) is the first power of two that is long enough; half of it is not.
		life = uint8(min(2*bits.Len64(uint64(us-1))-1, 2*timeBits))
	}
	if life < 2*timeBits && lifeTime(life) < us {
		life++
	}
	return life
}

// lifeTime returns the time of a life, in µs.
func lifeTime(life uint8) int64 {
	life &^= windowBit
	return (2 + int64(life&1)) << (life >> 1) >> 1
}

// timeLeft returns how long after now an entry must be kept, in µs. If the entry is dead, the result is not positive,
// and its absolute value is how long the entry has been dead. ref is a time at which the word's time is readable.
func (l *layout) timeLeft(tag, word uint64, ref, now int64) int64 {
	wasDenied := word&deniedBit != 0
	word ^= tag ^ l.salt
	units := int64(word & l.unitMask)
	if units == 0 {
		return -keepDeadMicros
	}
	life := lifeTime(l.life)
	if l.life&windowBit == 0 {
		life *= units
	}
	if wasDenied {
		life = deniedLife(life)
	}
	return min(life, maxLife) - (age(word, ref) + now - ref)
}

// stillDenied returns the denied bit for the state that replaces word at now. The bit stays set until the key drains.
func (l *layout) stillDenied(tag, word uint64, now int64) uint64 {
	if word&deniedBit == 0 || l.timeLeft(tag, word, now, now) <= 0 {
		return 0
	}
	return deniedBit
}
