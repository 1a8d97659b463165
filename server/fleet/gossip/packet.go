package gossip

import (
	"encoding/binary"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// A packet has updates of one host. It is forwarded unchanged, except for the number of remaining hops.
//
//	version   1 byte    the fields from hops to host never change, so that the sender of any version is known
//	hops      1 byte    how many more times it may be forwarded
//	kind      1 byte    update, leave, or an update that also requests all keys; leave has no fields after time
//	fleet     8 bytes   a hash of the cluster's name and secret
//	host      8 bytes   incarnation, then 1 byte with the length of the host's name, and the name
//	number    varint    counts the packets of an incarnation
//	uptime    varint    of the host when it wrote this, µs
//	time      varint    of day of the host when it wrote this, µs since 1970
//	limits    varint count, then each: algorithm and a flag, count, period and burst
//	whole     varint count, then each: key 16 bytes, index in limits and flags, start µs, total, level, and the
//	          fields that the flags announce: alias, window, offset, and a sum
//	short     varint count, then each: alias minus the one before, total, level, and a sum
//
// A sum is a tally.Comparison: the sum minus the total as a varint, 2 bytes of the digest, and 1 byte with the drained
// part of a unit in the low bits and flags above. Limits with windows do not need a sum, so packEarlier replaces it by
// the units of earlier windows.
//
// A whole tally takes about 34 bytes. A key that keeps changing gets an alias that later tallies use instead of the
// fields that stay the same: these take about 12. Aliases are assigned in increasing order and never stand for another
// key. So a host that has missed the packet that defines an alias cannot apply a tally to a wrong key.
//
// Keys are sent with all of their 128 bits, of which an attacker knows none, since the hash is keyed: among a billion
// keys the chance that any two share a counter is below 10^-20.
const (
	packetVersion = 4
	// maxPacket keeps a packet, with the headers of memberlist and IP, within an Ethernet frame: label, checksum and
	// encryption take up to 100 bytes, IPv6 and UDP 48.
	maxPacket = 1300
	// maxLimits and maxTallies are upper bounds of how many fit into a packet. A packet that announces more is refused
	// before they are read.
	maxLimits  = maxPacket / 4
	maxTallies = maxPacket / 3

	hopsAt = 1 // index of the number of hops in a packet
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
	tally  tally.Tally
	alias  uint64 // 0 for none
	short  bool
	readAt time.Duration // uptime when the tally was read from the ledger; this is not part of the packet
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

func (w *packetWriter) start(h *header) {
	*w = packetWriter{
		head: h.append(w.head[:0]), limits: w.limits[:0], limitBytes: w.limitBytes[:0],
		wholeBytes: w.wholeBytes[:0], shortBytes: w.shortBytes[:0],
	}
}

// size returns an upper bound of the size of the packet. Its three counts take at most two bytes each.
func (w *packetWriter) size() int {
	return len(w.head) + len(w.limitBytes) + len(w.wholeBytes) + len(w.shortBytes) + 6
}

// add adds a tally. It returns false if the packet is full. Short tallies must be added in the order of their aliases.
func (w *packetWriter) add(t *packetTally) bool {
	packed := *t
	packEarlier(&packed.tally)
	t = &packed
	limitsEnd, limits, whole, short := len(w.limitBytes), len(w.limits), len(w.wholeBytes), len(w.shortBytes)
	if t.short {
		w.shortBytes = binary.AppendUvarint(w.shortBytes, t.alias-w.lastAlias)
		w.shortBytes = appendUnits(w.shortBytes, t.tally.Total)
		w.shortBytes = appendUnits(w.shortBytes, t.tally.Level)
		w.shortBytes = appendSum(w.shortBytes, &t.tally)
	} else {
		index := w.limitIndex(&t.tally.Limit)
		w.wholeBytes = appendWhole(w.wholeBytes, t, index)
	}
	if w.size() > maxPacket {
		w.limitBytes, w.limits = w.limitBytes[:limitsEnd], w.limits[:limits]
		w.wholeBytes, w.shortBytes = w.wholeBytes[:whole], w.shortBytes[:short]
		return false
	}
	if t.short {
		w.shorts++
		w.lastAlias = t.alias
	} else {
		w.wholes++
	}
	return true
}

// Flags of a whole tally: which optional fields follow, and whether it was reset. The index of its limit is above them,
// as a multiple of wholeFlags.
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

// Flags in the last byte of a sum, above the drained part of a unit. UnitParts is a power of two.
const (
	isRecent = quota.UnitParts << iota
	sumIsValid
)

func appendSum(b []byte, t *tally.Tally) []byte {
	b = binary.AppendVarint(b, t.Sum-t.Total)
	b = binary.LittleEndian.AppendUint16(b, t.Digest)
	rest := t.DrainedPart % quota.UnitParts
	if t.SumValid {
		rest |= sumIsValid
	}
	if t.Recent {
		rest |= isRecent
	}
	return append(b, rest)
}

// limitIndex returns the index of a limit in the packet.
func (w *packetWriter) limitIndex(limit *headgate.Limit) int {
	for i := range w.limits {
		if w.limits[i] == *limit {
			return i
		}
	}
	w.limits = append(w.limits, *limit)
	w.limitBytes = appendLimit(w.limitBytes, limit)
	return len(w.limits) - 1
}

// finish appends the packet to b.
func (w *packetWriter) finish(b []byte) []byte {
	b = append(b, w.head...)
	b = binary.AppendUvarint(b, uint64(len(w.limits)))
	b = append(b, w.limitBytes...)
	b = binary.AppendUvarint(b, uint64(w.wholes))
	b = append(b, w.wholeBytes...)
	b = binary.AppendUvarint(b, uint64(w.shorts))
	return append(b, w.shortBytes...)
}

// isStaggered is a flag beside the algorithm of a limit.
const isStaggered = 1

// appendLimit appends a limit. It writes the only fields that limits have under algorithms that nodes share.
func appendLimit(b []byte, l *headgate.Limit) []byte {
	algorithm := byte(l.Algorithm) << 1
	if l.Staggered {
		algorithm |= isStaggered
	}
	b = append(b, algorithm)
	b = appendUnits(b, l.Count)
	b = appendMicros(b, l.Period)
	return appendUnits(b, l.Burst)
}

func appendMicros(b []byte, d time.Duration) []byte {
	return binary.AppendUvarint(b, uint64(max(d, 0)/time.Microsecond))
}

// appendUnits appends a number of units, 0 if it is negative.
func appendUnits(b []byte, n int64) []byte { return binary.AppendUvarint(b, uint64(max(n, 0))) }
