package gossip

import (
	"encoding/binary"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// A packet has updates of one host. It is forwarded unchanged, except for the number of remaining hops.
//
//	version   1 byte    all fields before number are the same in all versions, so that the sender is known
//	hops      1 byte    how many more times it may be forwarded
//	kind      1 byte    update, update with a request for all keys, or leave, which ends after the time
//	fleet     8 bytes   a hash of the cluster's name and secret
//	host      8 bytes   incarnation, then its name with the length in front
//	number    varint    counts the packets of an incarnation
//	uptime    varint    of the host when it wrote this, µs
//	time      varint    of day of the host when it wrote this, µs since 1970
//	limits    varint count, then each: algorithm, flags, count, and the fields that the flags announce
//	whole     varint count, then each: key 16 bytes, index in limits and flags, start µs, total, level, and the
//	          fields that the flags announce: alias, window, offset, and a sum
//	short     varint count, then each: alias minus the one before, total, level, and a sum
//
// A sum is its difference to the total, a digest of 2 bytes, and a byte of flags and the drained part of a unit.
//
// A whole tally takes about 34 bytes. A key that keeps changing gets an alias that later tallies use instead of the
// fields that stay the same: these take about 12. Aliases count up and never stand for another key, so a host that has
// missed the meaning of one can only fail to resolve it.
//
// Keys are sent with all of their 128 bits, of which an attacker knows none, since the hash is keyed: among a billion
// keys the chance that any two share a counter is below 10^-20.
const (
	packetVersion = 3
	// maxPacket keeps a packet, with the headers of memberlist and IP, within an Ethernet frame: label, checksum and
	// encryption take up to 100 bytes, IPv6 and UDP 48.
	maxPacket = 1300
	// maxLimits and maxTallies are what fits into a packet. One that announces more is refused before it is read.
	maxLimits  = maxPacket / 4
	maxTallies = maxPacket / 3

	hopsAt = 1
	kindAt = 2
)

type packetKind uint8

const (
	updatePacket packetKind = iota
	leavePacket
	requestPacket
)

// A header is the part of a packet before its tallies.
type header struct {
	hops      uint8
	kind      packetKind
	fleet     uint64
	from      fleet.Peer
	number    uint64
	uptime    time.Duration
	wallClock time.Duration // since 1970
}

func (h *header) append(b []byte) []byte {
	b = append(b, packetVersion, h.hops, byte(h.kind))
	b = binary.LittleEndian.AppendUint64(b, h.fleet)
	b = binary.LittleEndian.AppendUint64(b, h.from.Incarnation)
	b = append(b, byte(len(h.from.Name)))
	b = append(b, h.from.Name...)
	b = binary.AppendUvarint(b, h.number)
	b = appendMicros(b, h.uptime)
	return appendMicros(b, h.wallClock)
}

// A packetTally is a tally in a packet: whole, or short with an alias.
type packetTally struct {
	tally  ledger.Tally
	alias  uint64 // 0 for none
	short  bool
	resent bool // sent before; this is not part of the packet
}

// shortAlias returns the alias of a short tally, and 0 for a whole one.
func (t *packetTally) shortAlias() uint64 {
	if t.short {
		return t.alias
	}
	return 0
}

// A packetWriter writes tallies into one packet.
type packetWriter struct {
	head       []byte
	limits     []headgate.Limit
	limitBytes []byte
	wholeBytes []byte
	shortBytes []byte
	wholes     int
	shorts     int
	lastAlias  uint64 // written last
}

func (l *packetWriter) start(h *header) {
	*l = packetWriter{
		head: h.append(l.head[:0]), limits: l.limits[:0], limitBytes: l.limitBytes[:0],
		wholeBytes: l.wholeBytes[:0], shortBytes: l.shortBytes[:0],
	}
}

// size returns the size of the packet: three counts take at most two bytes each.
func (l *packetWriter) size() int {
	return len(l.head) + len(l.limitBytes) + len(l.wholeBytes) + len(l.shortBytes) + 6
}

// add adds a tally. It returns false if the packet is full. Short ones must be in the order of their aliases.
func (l *packetWriter) add(t *packetTally) bool {
	dict, limits, whole, short := len(l.limitBytes), len(l.limits), len(l.wholeBytes), len(l.shortBytes)
	if t.short {
		l.shortBytes = binary.AppendUvarint(l.shortBytes, t.alias-l.lastAlias)
		l.shortBytes = appendUnits(l.shortBytes, t.tally.Total)
		l.shortBytes = appendUnits(l.shortBytes, t.tally.Level)
		l.shortBytes = appendSum(l.shortBytes, &t.tally)
	} else {
		place := l.limitIndex(&t.tally.Limit)
		l.wholeBytes = appendWhole(l.wholeBytes, t, place)
	}
	if l.size() > maxPacket {
		l.limitBytes, l.limits = l.limitBytes[:dict], l.limits[:limits]
		l.wholeBytes, l.shortBytes = l.wholeBytes[:whole], l.shortBytes[:short]
		return false
	}
	if t.short {
		l.shorts++
		l.lastAlias = t.alias
	} else {
		l.wholes++
	}
	return true
}

// These flags say which fields of a whole tally follow.
const (
	hasAlias = 1 << iota
	hasWindow
	hasOffset
	wasReset
	hasSum
	wholeFlags
)

func appendWhole(b []byte, t *packetTally, index int) []byte {
	var flags uint64
	if t.alias != 0 {
		flags |= hasAlias
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
	b = binary.AppendUvarint(b, uint64(index)*wholeFlags|flags)
	b = appendMicros(b, t.tally.Start)
	b = appendUnits(b, t.tally.Total)
	b = appendUnits(b, t.tally.Level)
	if t.alias != 0 {
		b = binary.AppendUvarint(b, t.alias)
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

// These flags are in the last byte of a sum, beside the part of a unit.
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

// limitIndex returns the index of a limit in the packet.
func (l *packetWriter) limitIndex(limit *headgate.Limit) int {
	for i := range l.limits {
		if l.limits[i] == *limit {
			return i
		}
	}
	l.limits = append(l.limits, *limit)
	l.limitBytes = appendLimit(l.limitBytes, limit)
	return len(l.limits) - 1
}

// finish appends the packet to b.
func (l *packetWriter) finish(b []byte) []byte {
	b = append(b, l.head...)
	b = binary.AppendUvarint(b, uint64(len(l.limits)))
	b = append(b, l.limitBytes...)
	b = binary.AppendUvarint(b, uint64(l.wholes))
	b = append(b, l.wholeBytes...)
	b = binary.AppendUvarint(b, uint64(l.shorts))
	return append(b, l.shortBytes...)
}

// These flags say which fields of a limit follow.
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

// appendUnits appends a number of units, 0 if it is negative.
func appendUnits(b []byte, n int64) []byte { return binary.AppendUvarint(b, uint64(max(n, 0))) }
