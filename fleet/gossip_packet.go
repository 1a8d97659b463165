package fleet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate"
)

// A packet tells what one host has consumed. It is passed on as it is, but for the number of times it may still be.
//
//	version   1 byte    what comes before number is the same in all versions, so that one can tell whose packet it is
//	hops      1 byte    how many more times it may be passed on
//	kind      1 byte    news, or a farewell, which ends after the date
//	fleet     8 bytes   a hash of the cluster's name and secret
//	host      8 bytes   incarnation, then its name with the length before it
//	number    varint    counts the packets of an incarnation
//	uptime    varint    of the host when it wrote this, µs
//	date      varint    of the host, by its own clock, when it wrote this, µs since 1970
//	limits    varint how many, then each: algorithm, flags, count, and what the flags announce
//	whole     varint how many, then each: key 16 bytes, place in limits and flags, start µs, total, level, and what the
//	          flags announce: nickname, window, offset
//	short     varint how many, then each: nickname less the one before, total, level
//
// A tally takes about 28 bytes whole. A key that keeps changing gets a nickname that later tallies use instead of all that
// stays the same: these take about 6. Nicknames count up and never mean another key, so that a host that has missed the
// meaning of one can only fail to understand it.
//
// Keys are sent with all of their 128 bits, of which an attacker knows none, since the hash is keyed: among a billion
// keys the chance that any two share a counter is below 10^-20.
const (
	packetVersion = 2
	// maxPacket keeps a packet, with what memberlist and IP put around it, within an Ethernet frame: label, checksum and
	// encryption take up to 100 bytes, IPv6 and UDP 48.
	maxPacket   = 1300
	maxHostName = 64
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
)

// A header is what a packet says before its tallies.
type header struct {
	hops   uint8
	kind   packetKind
	fleet  uint64
	from   Peer
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

// A told is a tally on its way: whole if its nickname need not be known, else short.
type told struct {
	tally Tally
	nick  uint64 // 0 for none
	short bool
	again bool // it was told before; not sent
}

// A letter gathers tallies into one packet.
type letter struct {
	head   []byte
	limits []headgate.Limit
	dict   []byte
	whole  []byte
	short  []byte
	wholes int
	shorts int
	last   uint64 // the nickname written last
}

func (l *letter) begin(h *header) {
	*l = letter{head: h.append(l.head[:0]), limits: l.limits[:0], dict: l.dict[:0], whole: l.whole[:0], short: l.short[:0]}
}

// size is how long the packet will be: three counts take at most two bytes each.
func (l *letter) size() int { return len(l.head) + len(l.dict) + len(l.whole) + len(l.short) + 6 }

// add appends a tally, or tells that the packet is full. Short ones come in the order of their nicknames.
func (l *letter) add(t *told) bool {
	dict, limits, whole, short := len(l.dict), len(l.limits), len(l.whole), len(l.short)
	if t.short {
		l.short = binary.AppendUvarint(l.short, t.nick-l.last)
		l.short = appendUnits(l.short, t.tally.Total)
		l.short = appendUnits(l.short, t.tally.Level)
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
	wholeFlags
)

func appendWhole(b []byte, t *told, place int) []byte {
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
	return b
}

// place returns where in the dictionary a limit is.
func (l *letter) place(limit *headgate.Limit) int {
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
func (l *letter) seal(b []byte) []byte {
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

// Why a packet is not read.
var (
	errTorn    = errors.New("it ends too soon or has something that makes no sense")
	errVersion = errors.New("it is of another version")
)

// A reader takes a packet apart. What it is given may be anything.
type reader struct {
	rest []byte
	torn bool
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.torn = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.torn, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) word() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.torn, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// count returns a number of things to come, each of which takes at least so many bytes.
func (r *reader) count(most, least int) int {
	n := r.uvarint()
	if n > uint64(most) || n*uint64(least) > uint64(len(r.rest)) {
		r.torn, r.rest = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) units() int64 {
	n := r.uvarint()
	if n > math.MaxInt64 {
		r.torn = true
		return 0
	}
	return int64(n)
}

func (r *reader) micros() time.Duration {
	n := r.uvarint()
	if n > math.MaxInt64/uint64(time.Microsecond) {
		r.torn = true
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

func (r *reader) limit() headgate.Limit {
	l := headgate.Limit{Algorithm: headgate.Algorithm(r.byte())}
	flags := r.byte()
	if flags >= limitFlags {
		r.torn = true
	}
	l.Count = r.units()
	l.Period = r.micros()
	if flags&hasBurst != 0 {
		l.Burst = r.units()
	}
	if flags&hasBuckets != 0 {
		l.Buckets = int(min(r.uvarint(), headgate.MaxBuckets+1)) // more is refused by Validate
	}
	if flags&hasTTL != 0 {
		l.TTL = r.micros()
	}
	l.Staggered = flags&isStaggered != 0
	return l
}

// header reads what stands before the tallies. The name is that of the packet, to be copied if it is kept.
func (r *reader) header() (h header, name []byte, err error) {
	version := r.byte()
	h.hops = r.byte()
	h.kind = packetKind(r.byte())
	h.fleet = r.word()
	h.from.Incarnation = r.word()
	size := int(r.byte())
	name = r.bytes(size)
	if version != packetVersion && !r.torn && size <= maxHostName {
		return h, name, fmt.Errorf("%w: %d, want %d", errVersion, version, packetVersion)
	}
	h.number = r.uvarint()
	h.uptime = r.micros()
	h.date = r.micros()
	if r.torn || size == 0 || size > maxHostName || h.kind > farewell {
		return h, nil, errTorn
	}
	return h, name, nil
}

// tallies reads the rest of a packet into dst. Limits must be such that a Limiter takes them.
func (r *reader) tallies(dst []told, limits []headgate.Limit) ([]told, []headgate.Limit, error) {
	limits = limits[:0]
	for range r.count(maxLimits, 4) {
		l := r.limit()
		if r.torn || l.Validate() != nil {
			return dst, limits, errTorn
		}
		limits = append(limits, l)
	}
	for range r.count(maxTallies, 20) {
		t := r.whole(limits)
		if r.torn {
			return dst, limits, errTorn
		}
		dst = append(dst, t)
	}
	nick := uint64(0)
	for range r.count(maxTallies, 3) {
		step := r.uvarint()
		nick += step
		t := told{nick: nick, short: true}
		t.tally.Total = r.units()
		t.tally.Level = r.units()
		if r.torn || step == 0 || nick < step {
			return dst, limits, errTorn
		}
		dst = append(dst, t)
	}
	if r.torn || len(r.rest) > 0 {
		return dst, limits, errTorn
	}
	return dst, limits, nil
}

// whole reads one whole tally.
func (r *reader) whole(limits []headgate.Limit) (t told) {
	copy(t.tally.Key[:], r.bytes(len(t.tally.Key)))
	flags := r.uvarint()
	if place := flags / wholeFlags; place < uint64(len(limits)) {
		t.tally.Limit = limits[place]
	} else {
		r.torn = true
	}
	t.tally.Start = r.micros()
	t.tally.Total = r.units()
	t.tally.Level = r.units()
	if flags&hasNick != 0 {
		t.nick = r.uvarint()
	}
	if flags&hasWindow != 0 {
		t.tally.Window = r.units()
	}
	if flags&hasOffset != 0 {
		t.tally.Offset = r.units()
	}
	t.tally.Reset = flags&wasReset != 0
	return t
}
