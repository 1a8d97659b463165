package exchange

import (
	"encoding/binary"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// A Batch is the content of one exchange.
type Batch struct {
	Tallies []tally.Tally
	Notes   []fleet.Note // one for each tally
	bytes   []byte
	ends    []int // the ends of the notes in bytes
	missed  []tally.Tally
}

// Fill takes the updates to send from the ledger. In an early round, it takes only keys that decisions wait for.
func (b *Batch) Fill(l *ledger.Ledger, maxKeys int, early bool) {
	if early {
		b.Tallies = l.Lookups(b.Tallies[:0], maxKeys)
	} else {
		b.Tallies = l.Changes(b.Tallies[:0], maxKeys)
	}
	b.Notes, b.bytes, b.ends = b.Notes[:0], b.bytes[:0], b.ends[:0]
	uptime := l.Uptime()
	for i := range b.Tallies {
		t := &b.Tallies[i]
		b.bytes = append(b.bytes, t.Key[:]...)
		if t.Total != t.Delivered || t.Reset || t.SendLevel { // otherwise peers know the tally, and the key is only looked up
			b.bytes = AppendNote(b.bytes, uptime, t)
		}
		b.ends = append(b.ends, len(b.bytes))
	}
	text, start := string(b.bytes), 0 // one allocation for all notes
	for i, end := range b.ends {
		t, textStart := &b.Tallies[i], start+len(tally.Key{})
		b.Notes = append(b.Notes, fleet.Note{
			Key: text[start:textStart], Text: text[textStart:end], Keep: KeepFor(t), ReadAll: t.ReadAllNotes,
		})
		start = end
	}
}

// Pick returns the tallies at the given indices.
func (b *Batch) Pick(keys []int) []tally.Tally {
	b.missed = b.missed[:0]
	for _, i := range keys {
		b.missed = append(b.missed, b.Tallies[i])
	}
	return b.missed
}

// MinKeep is the minimum that KeepFor returns.
const MinKeep = 5 * time.Minute

// KeepFor returns how long the exchange should keep a note: until the largest possible debt is repaid.
func KeepFor(t *tally.Tally) time.Duration {
	p := quota.Plan{Limit: t.Limit, Period: t.Limit.Period.Microseconds()}
	all := time.Duration(min(p.TimeFor(12*t.Limit.Capacity()), quota.MaxTime/2)) * time.Microsecond
	return max(MinKeep, all)
}

// A note has a version, flags, four varints, and the fields that the flags announce. To stay compatible with earlier
// versions, which ignore the following, notes use some fields twice. Notes of buckets, which have no windows, have a
// sum in the field of the window, and the other parts of a tally.Comparison in the field of carried units. Notes of
// limits with windows have the units of the previous window in the field of the level.
const (
	noteVersion = 1
	noteWindow  = 1 << 0
	noteReset   = 1 << 1
	noteCarried = 1 << 2
)

// AppendNote appends a note of a tally, written at an uptime of the ledger.
func AppendNote(b []byte, uptime time.Duration, t *tally.Tally) []byte {
	window, carried := t.Window, t.Carried
	if t.Comparison != (tally.Comparison{}) {
		window, carried = packComparison(&t.Comparison)
	}
	level := t.Level
	if t.Previous > 0 {
		level = packPrevious(t)
	}
	flags := byte(0)
	if window != 0 {
		flags |= noteWindow
	}
	if t.Reset {
		flags |= noteReset
	}
	if carried != 0 {
		flags |= noteCarried
	}
	b = append(b, noteVersion, flags)
	b = binary.AppendUvarint(b, uint64(uptime/time.Microsecond))
	b = binary.AppendUvarint(b, uint64(t.Start/time.Microsecond))
	b = binary.AppendUvarint(b, uint64(t.Total))
	b = binary.AppendUvarint(b, uint64(level))
	if window != 0 {
		b = binary.AppendVarint(b, window)
	}
	if carried != 0 {
		b = binary.AppendUvarint(b, uint64(carried))
	}
	return b
}

// ReadNote reads a note. It does not check whether its values are plausible.
func ReadNote(note string, t *tally.Tally) (uptime time.Duration, ok bool) {
	if len(note) < 2 || len(note) > maxNote || note[0] != noteVersion || note[1]&^(noteWindow|noteReset|noteCarried) != 0 {
		return 0, false
	}
	b := []byte(note[2:])
	var numbers [4]uint64
	for i := range numbers {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > maxNoteNumber {
			return 0, false
		}
		numbers[i], b = n, b[size:]
	}
	uptime = time.Duration(numbers[0]) * time.Microsecond
	t.Start = time.Duration(numbers[1]) * time.Microsecond
	t.Total, t.Level = int64(numbers[2]), int64(numbers[3])
	t.Reset = note[1]&noteReset != 0
	if note[1]&noteWindow != 0 {
		n, size := binary.Varint(b)
		if size <= 0 || n > maxNoteNumber || n < -maxNoteNumber {
			return 0, false
		}
		t.Window, b = n, b[size:]
	}
	if note[1]&noteCarried != 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n == 0 || n > maxNoteNumber {
			return 0, false
		}
		t.Carried, b = int64(n), b[size:]
	}
	return uptime, len(b) == 0
}

// The units of the previous window are in the upper bits of a level, because nodes do not need the levels of limits
// with windows. Earlier versions accept levels up to 521 times the capacity. previousMark in the lower bits means that
// the number is not a level. A level that has the same lower bits by accident is read as about 500 times fewer units.
const (
	previousBits = 9
	previousMark = 5
)

func packPrevious(t *tally.Tally) int64 {
	previous := t.Previous
	if t.Limit != (headgate.Limit{}) {
		previous = min(previous, t.Limit.Capacity())
	}
	return min(previous, maxNoteNumber>>previousBits)<<previousBits | previousMark
}

// ReadPrevious moves the units of the previous window from the field of the level to t.Previous. limit is the key's
// limit.
func ReadPrevious(t *tally.Tally, limit *headgate.Limit) {
	if limit.Algorithm != headgate.FixedWindow && limit.Algorithm != headgate.SlidingWindow {
		return
	}
	if t.Level&(1<<previousBits-1) == previousMark {
		t.Previous, t.Level = t.Level>>previousBits, 0
	}
}

// packComparison encodes a comparison for the window and carried fields of a note.
func packComparison(c *tally.Comparison) (window, carried int64) {
	carried = int64(c.Digest)<<comparisonBits | int64(c.DrainedPart&(quota.UnitParts-1))<<3 | comparisonSent
	if c.Recent {
		carried |= comparisonRecent
	}
	if !c.SumValid || c.Sum < -maxNoteNumber || c.Sum > maxNoteNumber {
		return 0, carried
	}
	return c.Sum, carried | comparisonValid
}

const (
	comparisonSent   = 1 << 0
	comparisonRecent = 1 << 1
	comparisonValid  = 1 << 2
	comparisonBits   = 9 // number of bits of the flags and the drained part
)

// ReadComparison moves the comparison from the window and carried fields to t.Comparison. limit is the key's limit.
func ReadComparison(t *tally.Tally, limit *headgate.Limit) {
	if limit.Algorithm != headgate.TokenBucket && limit.Algorithm != headgate.GCRA {
		return
	}
	if t.Carried&comparisonSent != 0 && t.Carried < 1<<(comparisonBits+16) {
		t.Comparison = tally.Comparison{
			Sum: t.Window, Digest: uint16(t.Carried >> comparisonBits), DrainedPart: uint8(t.Carried>>3) & (quota.UnitParts - 1),
			SumValid: t.Carried&comparisonValid != 0, Recent: t.Carried&comparisonRecent != 0,
		}
	}
	t.Window, t.Carried = 0, 0
}

const (
	maxNote = 64
	// maxNoteNumber is so small that a number of microseconds fits into a time.Duration.
	maxNoteNumber = 1<<53 - 1
)

const incarnationBytes = 8

// Author returns the author of a node's notes: the incarnation and the name of the node.
func Author(p fleet.Peer) string {
	return string(append(binary.BigEndian.AppendUint64(nil, p.Incarnation), p.Name...))
}

// ParseAuthor returns the node of an author.
func ParseAuthor(author string) (fleet.Peer, bool) {
	if len(author) <= incarnationBytes || len(author) > incarnationBytes+fleet.MaxNameBytes {
		return fleet.Peer{}, false
	}
	incarnation := binary.BigEndian.Uint64([]byte(author[:incarnationBytes]))
	return fleet.Peer{Incarnation: incarnation, Name: author[incarnationBytes:]}, true
}
