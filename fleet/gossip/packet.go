package gossip

import (
	"encoding/binary"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/ledger"
	"github.com/headgate/headgate/fleet/internal/quota"
)

// A packet tells what one host has consumed. It is passed on as it is, but for the number of times it may still be.
//
//	version   1 byte    what comes before number is the same in all versions, so that one can tell whose packet it is
//	hops      1 byte    how many more times it may be passed on
//	kind      1 byte    news, news of a host that asks to be told all, or a farewell, which ends after the date
//	fleet     8 bytes   a hash of the cluster's name and secret
//	host      8 bytes   incarnation, then its name with the length before it
//	number    varint    counts the packets of an incarnation
//	uptime    varint    of the host when it wrote this, µs
//	date      varint    of the host, by its own clock, when it wrote this, µs since 1970
//	limits    varint how many, then each: algorithm, flags, count, and what the flags announce
//	whole     varint how many, then each: key 16 bytes, place in limits and flags, start µs, total, level, and what the
//	          flags announce: nickname, window, offset, and a sum
//	short     varint how many, then each: nickname less the one before, total, level, and a sum
//
// A sum is: what it is more than the total, digest 2 bytes, a byte of flags and the part of a unit that has drained.
//
// A tally takes about 34 bytes whole. A key that keeps changing gets a nickname that later tallies use instead of all that
// stays the same: these take about 12. Nicknames count up and never mean another key, so that a host that has missed the
// meaning of one can only fail to understand it.
//
// Keys are sent with all of their 128 bits, of which an attacker knows none, since the hash is keyed: among a billion
// keys the chance that any two share a counter is below 10^-20.
const (
	packetVersion = 3
	// maxPacket keeps a packet, with what memberlist and IP put around it, within an Ethernet frame: label, checksum and
	// encryption take up to 100 bytes, IPv6 and UDP 48.
	maxPacket = 1300
	// maxLimits and maxTallies are what fits a packet, so that one that promises more is refused before it is read.
	maxLimits  = maxPacket / 4
	maxTallies = maxPacket / 3

	hopsAt = 1
	kindAt = 2
)

type packetKind uint8

const (
	news packetKind = iota
	farewell
	asking
)

// A header is what a packet says before its tallies.
type header struct {
	hops   uint8
	kind   packetKind
	fleet  uint64
	from   fleet.Peer
	number uint64
	uptime time.Duration
	date   time.Duration // since 1970
}

func (h *header) append(b []byte) []byte {
	b = append(b, packetVersion, h.hops, byte(h.kind))
	b = binary.LittleEndian.AppendUint64(b, h.fleet)
	b = binary.LittleEndian.AppendUint64(b, h.from.Incarnation)
	b = append(b, byte(len(h.from.Name)))
	b = append(b, h.from.Name...)
	b = binary.AppendUvarint(b, h.number)
	b = appendMicros(b, h.uptime)
	return appendMicros(b, h.date)
}

// A packetTally is a tally on its way: whole if its nickname need not be known, else short.
type packetTally struct {
	tally ledger.Tally
	nick  uint64 // 0 for none
	short bool
	again bool // it was told before; not sent
}

// A packetWriter gathers tallies into one packet.
type packetWriter struct {
	head   []byte
	limits []headgate.Limit
	dict   []byte
	whole  []byte
	short  []byte
	wholes int
	shorts int
	last   uint64 // the nickname written last
}

func (l *packetWriter) begin(h *header) {
	*l = packetWriter{head: h.append(l.head[:0]), limits: l.limits[:0], dict: l.dict[:0], whole: l.whole[:0], short: l.short[:0]}
}

// size is how long the packet will be: three counts take at most two bytes each.
func (l *packetWriter) size() int { return len(l.head) + len(l.dict) + len(l.whole) + len(l.short) + 6 }

// add appends a tally, or tells that the packet is full. Short ones come in the order of their nicknames.
func (l *packetWriter) add(t *packetTally) bool {
	dict, limits, whole, short := len(l.dict), len(l.limits), len(l.whole), len(l.short)
	if t.short {
		l.short = binary.AppendUvarint(l.short, t.nick-l.last)
		l.short = appendUnits(l.short, t.tally.Total)
		l.short = appendUnits(l.short, t.tally.Level)
		l.short = appendSum(l.short, &t.tally)
	} else {
		place := l.place(&t.tally.Limit)
		l.whole = appendWhole(l.whole, t, place)
	}
	if l.size() > maxPacket {
		l.dict, l.limits, l.whole, l.short = l.dict[:dict], l.limits[:limits], l.whole[:whole], l.short[:short]
		return false
	}
	if t.short {
		l.shorts++
		l.last = t.nick
	} else {
		l.wholes++
	}
	return true
}

// Which fields of a whole tally follow.
const (
	hasNick = 1 << iota
	hasWindow
	hasOffset
	wasReset
	hasSum
	wholeFlags
)

func appendWhole(b []byte, t *packetTally, place int) []byte {
	var flags uint64
	if t.nick != 0 {
		flags |= hasNick
	}
	if t.tally.Window != 0 {
		flags |= hasWindow
	}
	if t.tally.Offset != 0 {
		flags |= hasOffset
	}
	if t.tally.Reset {
		flags |= wasReset
	}
	if t.tally.SumValid {
		flags |= hasSum
	}
	b = append(b, t.tally.Key[:]...)
	b = binary.AppendUvarint(b, uint64(place)*wholeFlags|flags)
	b = appendMicros(b, t.tally.Start)
	b = appendUnits(b, t.tally.Total)
	b = appendUnits(b, t.tally.Level)
	if t.nick != 0 {
		b = binary.AppendUvarint(b, t.nick)
	}
	if t.tally.Window != 0 {
		b = appendUnits(b, t.tally.Window)
	}
	if t.tally.Offset != 0 {
		b = appendUnits(b, t.tally.Offset)
	}
	if t.tally.SumValid {
		b = appendSum(b, &t.tally)
	}
	return b
}

// What the last byte of a sum says beside the part of a unit.
const (
	isRecent = quota.UnitParts << iota
	isSure
)

func appendSum(b []byte, t *ledger.Tally) []byte {
	b = binary.AppendVarint(b, t.Sum-t.Total)
	b = binary.LittleEndian.AppendUint16(b, t.Digest)
	rest := t.DrainedPart % quota.UnitParts
	if t.SumValid {
		rest |= isSure
	}
	if t.Recent {
		rest |= isRecent
	}
	return append(b, rest)
}

// place returns where in the dictionary a limit is.
func (l *packetWriter) place(limit *headgate.Limit) int {
	for i := range l.limits {
		if l.limits[i] == *limit {
			return i
		}
	}
	l.limits = append(l.limits, *limit)
	l.dict = appendLimit(l.dict, limit)
	return len(l.limits) - 1
}

// seal appends the packet to b.
func (l *packetWriter) seal(b []byte) []byte {
	b = append(b, l.head...)
	b = binary.AppendUvarint(b, uint64(len(l.limits)))
	b = append(b, l.dict...)
	b = binary.AppendUvarint(b, uint64(l.wholes))
	b = append(b, l.whole...)
	b = binary.AppendUvarint(b, uint64(l.shorts))
	return append(b, l.short...)
}

// Which fields of a limit follow.
const (
	hasBurst = 1 << iota
	hasBuckets
	hasTTL
	isStaggered
	limitFlags
)

func appendLimit(b []byte, l *headgate.Limit) []byte {
	var flags byte
	if l.Burst != 0 {
		flags |= hasBurst
	}
	if l.Buckets != 0 {
		flags |= hasBuckets
	}
	if l.TTL != 0 {
		flags |= hasTTL
	}
	if l.Staggered {
		flags |= isStaggered
	}
	b = append(b, byte(l.Algorithm), flags)
	b = appendUnits(b, l.Count)
	b = appendMicros(b, l.Period)
	if l.Burst != 0 {
		b = appendUnits(b, l.Burst)
	}
	if l.Buckets != 0 {
		b = binary.AppendUvarint(b, uint64(l.Buckets))
	}
	if l.TTL != 0 {
		b = appendMicros(b, l.TTL)
	}
	return b
}

func appendMicros(b []byte, d time.Duration) []byte {
	return binary.AppendUvarint(b, uint64(max(d, 0)/time.Microsecond))
}

// appendUnits appends a number of units, of which there are none below zero.
func appendUnits(b []byte, n int64) []byte { return binary.AppendUvarint(b, uint64(max(n, 0))) }
