package memstore

import (
	"math/bits"

	"github.com/headgate/headgate/algorithm"
)

// A state word holds an algorithm.Pair in 64 bits, so that one compare-and-swap is a decision:
//
//	bit 63      held: a holder of the shard's lock is about to change or move the entry
//	bit 62      denied: the key was denied since it last drained; such a key is not evicted
//	bit 61      claimed, and then held as well: by a TakeAll, see claim.go
//	bits 20–60  time in µs, modulo 2^41 (25 days)
//	bits 0–19   units
//
// Time and units are sealed with the key: the 56 bits of its tag are added to them without carry. So the words of two keys
// that have consumed the same at the same time differ, and one who has read the word of a key cannot swap that of the
// slot's next owner for it.
//
// A time is told from those 25 days before and after it because nothing lives longer than maxLife, and because what is
// dead is found and dropped in time (see lap.go).
const (
	held    = 1 << 63
	denied  = 1 << 62
	claimed = 1 << 61

	unitBits = 20
	timeBits = 41
	unitMask = 1<<unitBits - 1
	timeMask = 1<<timeBits - 1

	maxAhead = 1 << (timeBits - 3) // µs by which a time may be after now: 3.2 days
	maxLife  = 3 << (timeBits - 2) // µs: 19 days
	maxDeath = 1 << (timeBits - 5) // µs for which a dead entry may stay: 19 hours
)

func pack(p algorithm.Pair) uint64 {
	return uint64(p.Time)&timeMask<<unitBits | uint64(p.Units)
}

// seal returns the state word of a key, given by its tag, that has a pair.
func seal(tag uint64, p algorithm.Pair) uint64 { return pack(p) ^ tag }

// unseal returns the pair in the state word of a key.
func unseal(tag, word uint64, now int64) algorithm.Pair { return unpack(word^tag, now) }

// unpack returns the pair in a word, whose time is less than maxAhead after now and less than 2^41 − maxAhead before. A
// word without units is that of an entry that is only just being added.
func unpack(word uint64, now int64) algorithm.Pair {
	units := int64(word & unitMask)
	if units == 0 {
		return algorithm.Pair{}
	}
	return algorithm.Pair{Time: now - age(word, now), Units: units}
}

// age returns how long before now the word's time is; negative if it is after.
func age(word uint64, now int64) int64 {
	return int64((uint64(now)-word>>unitBits+maxAhead)&timeMask) - maxAhead
}

// deniedLife returns how long a key that was denied is remembered, if its state is worth remembering for so many µs. One
// that is asked for at several times its limit is then asked for again while the denial is remembered, even if it has
// drained: otherwise it could be evicted until its next denial.
func deniedLife(us int64) int64 { return us + us/4 }

// A tag word names the key of an entry: 56 bits of its hash, and in the low byte how long the entry lives. The other 8
// bits of the hash are the number of the shard. A tag word of 0 is a free entry.
//
// The life byte is a time in µs, an exponent of two in bits 1–6 and one half more of that if bit 0 is set: for a bucket
// the time in which one unit drains, for a window (bit 7 set) its period. It is rounded up, and only ever raised: it
// tells when an entry may be forgotten, never what is decided.
const (
	lifeBits  = 8
	lifeMask  = 1<<lifeBits - 1
	windowBit = 1 << (lifeBits - 1)

	// gone is the tag of an entry that moved to the wide records. No key has it: tagOf never returns all ones.
	gone = 1<<(64-lifeBits) - 1
)

// tagOf returns the part of a hash that is in the tag word, never 0 nor gone.
func tagOf(hash uint64) uint64 {
	tag := hash & gone
	if tag == 0 || tag == gone {
		return 1
	}
	return tag
}

// lifeOf returns the life byte of a plan's entries, and false if they do not fit a state word.
func lifeOf(p *algorithm.Plan) (life uint8, fits bool) {
	if !p.IsPair() || p.MaxUnits() > unitMask {
		return 0, false
	}
	us := p.Life(1)
	if p.Kind() == algorithm.KindWindow {
		if us > maxBehind {
			return 0, false
		}
		if p.Limit().Staggered {
			us *= 2 // its times are behind by up to a period
		}
		life = windowBit
	}
	life |= lifeFor(us)
	if p.Kind() == algorithm.KindBucket {
		return life, lifeTime(life)*p.MaxUnits() <= maxLife
	}
	return life, lifeTime(life) <= maxLife
}

// lifeFor returns the life byte of the shortest time that is at least so long, or of the longest there is.
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

// lifeTime returns the time in a life byte, in µs.
func lifeTime(life uint8) int64 {
	life &^= windowBit
	return (2 + int64(life&1)) << (life >> 1) >> 1
}

// left returns how long an entry is still worth remembering at now, in µs; 0 or less if it is as good as none, and for how
// long it has been. The word's time is told by ref, a time at which the entry was known to be readable.
func left(tagWord, word uint64, ref, now int64) int64 {
	wasDenied := word&denied != 0
	word ^= tagWord >> lifeBits
	life := uint8(tagWord & lifeMask)
	units := int64(word & unitMask)
	if units == 0 {
		return -lingerMicros
	}
	lives := lifeTime(life)
	if life&windowBit == 0 {
		lives *= units
	}
	if wasDenied {
		lives = deniedLife(lives)
	}
	return min(lives, maxLife) - (age(word, ref) + now - ref)
}
