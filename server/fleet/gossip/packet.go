package gossip

import (
	"encoding/binary"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// A packet has updates of one host. Hosts forward it without changes, except to the number of remaining hops.
//
//	version   1 byte    the next fields, up to host, are the same in all versions, so that the sender is always known
//	hops      1 byte    how many more times the packet may be forwarded
//	kind      1 byte    update, leave, or request: an update that also requests all keys; leave has no fields after time
//	fleet     8 bytes   a hash of the cluster's name and secret
//	host      8 bytes   incarnation, then 1 byte with the length of the host's name, and the name
//	number    varint    counts the packets of an incarnation
//	uptime    varint    uptime of the host when it wrote the packet, µs
//	time      varint    clock of the host when it wrote the packet, µs since 1970
//	limits    varint    number of limits, then each limit: algorithm and a flag, count, period and burst
//	whole     varint    number of whole tallies, then each tally: key (16 bytes), index in limits and flags, start (µs),
//	                    total, level, and the fields that the flags announce: alias, window, offset, and a sum
//	short     varint    number of short tallies, then each tally: alias minus the previous alias, total, level, and a sum
//
// A sum is a tally.Comparison: the sum minus the total as a varint, 2 bytes of the digest, and 1 byte with the drained
// part of a unit in the low bits and flags in the high bits. Limits with windows do not need a sum, so packEarlier
// replaces it by the units of earlier windows.
//
// A whole tally takes about 34 bytes. A key that keeps changing gets an alias. Later tallies of the key are short: they
// have the alias instead of the fields that stay the same, and take about 12 bytes. Aliases are assigned in increasing
// order and are never reused for another key. So if a host has missed the packet that defines an alias, it cannot apply
// a tally to a wrong key.
//
// Keys are 128-bit hashes with a secret key, so an attacker cannot choose keys that collide. Among a billion keys, the
// probability that any two share a counter is below 10^-20.
const (
	packetVersion = 4
	// maxPacket is so small that a packet fits into an Ethernet frame. The label, checksum and encryption of memberlist
	// take up to 100 bytes; the headers of IPv6 and UDP take 48.
	maxPacket = 1300
	// maxLimits and maxTallies are the maximum numbers that fit into a packet. A packet that announces more is refused
	// before any is read.
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

// A header is the part of a packet in front of its limits and tallies.
type header struct {
	hops      uint8
	kind      packetKind
	fleet     uint64
	from      fleet.Peer
	number    uint64
	uptime    time.Duration
	wallClock time.Duration // time since 1970
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

// A packetTally is a tally in a packet. If short is set, the alias replaces the fields that do not change.
type packetTally struct {
	tally  tally.Tally
	alias  uint64 // 0 for none
	short  bool
	readAt time.Duration // uptime when the tally was read from the ledger; not part of the packet
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
	lastAlias  uint64 // the alias of the last short tally
}

func (w *packetWriter) start(h *header) {
	*w = packetWriter{
		head: h.append(w.head[:0]), limits: w.limits[:0], limitBytes: w.limitBytes[:0],
		wholeBytes: w.wholeBytes[:0], shortBytes: w.shortBytes[:0],
	}
}

// size returns the maximum size of the packet. The numbers of limits, whole tallies and short tallies take at most two
// bytes each.
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

// Flags of a whole tally. They say which optional fields follow, and whether the key was reset. The same number has the
// index of the tally's limit, multiplied by wholeFlags.
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
	last := t.DrainedPart % quota.UnitParts
	if t.SumValid {
		last |= sumIsValid
	}
	if t.Recent {
		last |= isRecent
	}
	return append(b, last)
}

// limitIndex returns the index of a limit in the packet, and adds the limit if it is not there yet.
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

// isStaggered is the flag in the low bit of a limit's algorithm.
const isStaggered = 1

// appendLimit appends a limit. Limits that nodes can share have no other fields than these.
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
