package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// Reasons why a packet is refused.
var (
	errMalformed = errors.New("truncated or invalid content")
	errVersion   = errors.New("another version")
)

// A packetReader reads a packet, which may be malformed. If a value cannot be read, its methods return 0 and set
// malformed.
type packetReader struct {
	rest      []byte
	malformed bool
}

func (r *packetReader) byte() byte {
	if len(r.rest) == 0 {
		r.malformed = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *packetReader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.malformed, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *packetReader) uint64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *packetReader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.malformed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// count reads the number of the following entries. There may be at most maxCount, and each takes at least minSize
// bytes.
func (r *packetReader) count(maxCount, minSize int) int {
	n := r.uvarint()
	if n > uint64(maxCount) || n*uint64(minSize) > uint64(len(r.rest)) {
		r.malformed, r.rest = true, nil
		return 0
	}
	return int(n)
}

func (r *packetReader) units() int64 {
	n := r.uvarint()
	if n > math.MaxInt64 {
		r.malformed = true
		return 0
	}
	return int64(n)
}

// sum reads the sum of a tally.
func (r *packetReader) sum(t *tally.Tally) {
	diff, size := binary.Varint(r.rest)
	if size <= 0 || diff > math.MaxInt64-t.Total { // a sum may be below the total, but must not overflow
		r.malformed, r.rest = true, nil
		return
	}
	r.rest = r.rest[size:]
	t.Sum = t.Total + diff
	if b := r.bytes(3); b != nil {
		t.Digest, t.DrainedPart = binary.LittleEndian.Uint16(b), b[2]%quota.UnitParts
		t.Recent, t.SumValid = b[2]&isRecent != 0, b[2]&sumIsValid != 0
	}
}

func (r *packetReader) micros() time.Duration {
	n := r.uvarint()
	if n > math.MaxInt64/uint64(time.Microsecond) {
		r.malformed = true
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

func (r *packetReader) limit() headgate.Limit {
	algorithm := r.byte()
	return headgate.Limit{
		Algorithm: headgate.Algorithm(algorithm >> 1), Staggered: algorithm&isStaggered != 0,
		Count: r.units(), Period: r.micros(), Burst: r.units(),
	}
}

// header reads the part in front of the limits and tallies. name refers to the memory of the packet, so the caller must
// copy it to keep it.
func (r *packetReader) header() (h header, name []byte, err error) {
	version := r.byte()
	h.hops = r.byte()
	h.kind = packetKind(r.byte())
	h.fleet = r.uint64()
	h.from.Incarnation = r.uint64()
	size := int(r.byte())
	name = r.bytes(size)
	if version != packetVersion && !r.malformed && size <= fleet.MaxNameBytes {
		return h, name, fmt.Errorf("%w: %d, want %d", errVersion, version, packetVersion)
	}
	h.number = r.uvarint()
	h.uptime = r.micros()
	h.wallClock = r.micros()
	if r.malformed || size == 0 || size > fleet.MaxNameBytes || h.kind > requestPacket {
		return h, nil, errMalformed
	}
	return h, name, nil
}

// tallies reads the rest of a packet. It appends the tallies to dst, and reuses the memory of limits for the limits.
func (r *packetReader) tallies(dst []packetTally, limits []headgate.Limit) ([]packetTally, []headgate.Limit, error) {
	limits = limits[:0]
	// In bytes, a limit takes at least 4, a whole tally 20 and a short tally 7.
	for range r.count(maxLimits, 4) {
		l := r.limit()
		if r.malformed || l.Validate() != nil {
			return dst, limits, errMalformed
		}
		limits = append(limits, l)
	}
	for range r.count(maxTallies, 20) {
		t := r.wholeTally(limits)
		if r.malformed {
			return dst, limits, errMalformed
		}
		dst = append(dst, t)
	}
	alias := uint64(0)
	for range r.count(maxTallies, 7) {
		step := r.uvarint()
		alias += step
		t := packetTally{alias: alias, short: true}
		t.tally.Total = r.units()
		t.tally.Level = r.units()
		r.sum(&t.tally)
		if r.malformed || step == 0 || alias < step {
			return dst, limits, errMalformed
		}
		dst = append(dst, t)
	}
	if r.malformed || len(r.rest) > 0 {
		return dst, limits, errMalformed
	}
	return dst, limits, nil
}

// wholeTally reads one whole tally.
func (r *packetReader) wholeTally(limits []headgate.Limit) (t packetTally) {
	copy(t.tally.Key[:], r.bytes(len(t.tally.Key)))
	flags := r.uvarint()
	if index := flags / wholeFlags; index < uint64(len(limits)) {
		t.tally.Limit = limits[index]
	} else {
		r.malformed = true
	}
	t.tally.Start = r.micros()
	t.tally.Total = r.units()
	t.tally.Level = r.units()
	if flags&hasAlias != 0 {
		t.alias = r.uvarint()
	}
	if flags&hasWindow != 0 {
		t.tally.Window = r.units()
	}
	if flags&hasOffset != 0 {
		t.tally.Offset = r.units()
	}
	if flags&hasSum != 0 {
		r.sum(&t.tally)
	}
	t.tally.Reset = flags&wasReset != 0
	if !r.malformed {
		unpackEarlier(&t.tally)
	}
	return t
}
