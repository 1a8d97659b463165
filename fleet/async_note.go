package fleet

import (
	"encoding/binary"
	"time"
)

// A batch is what one exchange tells, and asks for.
type batch struct {
	tallies []Tally
	keys    []string
	notes   []string
	keep    []time.Duration
	all     []bool
	bytes   []byte
	ends    []int
	missed  []Tally
}

// fill takes from the ledger what is to be told, or, in an early round, only what decisions wait for.
func (b *batch) fill(l *Ledger, most int, early bool) {
	if early {
		b.tallies = l.lookups(b.tallies[:0], most)
	} else {
		b.tallies = l.Changes(b.tallies[:0], most)
	}
	b.keys, b.notes, b.keep, b.all, b.bytes, b.ends = b.keys[:0], b.notes[:0], b.keep[:0], b.all[:0], b.bytes[:0], b.ends[:0]
	uptime := l.Uptime()
	for i := range b.tallies {
		t := &b.tallies[i]
		b.bytes = append(b.bytes, t.Key[:]...)
		if t.Total != t.told || t.Reset || t.speak { // else others know it, and there is only something to ask
			b.bytes = appendNote(b.bytes, uptime, t)
		}
		b.ends = append(b.ends, len(b.bytes))
		b.keep, b.all = append(b.keep, keep(t)), append(b.all, t.all)
	}
	text := string(b.bytes)
	from := 0
	for _, end := range b.ends {
		b.keys = append(b.keys, text[from:from+len(Key{})])
		b.notes = append(b.notes, text[from+len(Key{}):end])
		from = end
	}
}

// pick returns the tallies of some keys.
func (b *batch) pick(keys []int) []Tally {
	b.missed = b.missed[:0]
	for _, i := range keys {
		b.missed = append(b.missed, b.tallies[i])
	}
	return b.missed
}

const minKeep = 5 * time.Minute

// keep is for how long a note is worth keeping: until the deepest debt is repaid.
func keep(t *Tally) time.Duration {
	p := plan{limit: t.Limit, period: t.Limit.Period.Microseconds()}
	all := time.Duration(min(p.timeFor(12*t.Limit.Capacity()), longest/2)) * time.Microsecond
	return max(minKeep, all)
}

// A note is a version, some varints and, where they matter, more.
const (
	noteVersion = 1
	noteWindow  = 1 << 0
	noteReset   = 1 << 1
	noteCarried = 1 << 2
)

func appendNote(b []byte, uptime time.Duration, t *Tally) []byte {
	flags := byte(0)
	if t.Window != 0 {
		flags |= noteWindow
	}
	if t.Reset {
		flags |= noteReset
	}
	if t.Carried != 0 {
		flags |= noteCarried
	}
	b = append(b, noteVersion, flags)
	b = binary.AppendUvarint(b, uint64(uptime/time.Microsecond))
	b = binary.AppendUvarint(b, uint64(t.Start/time.Microsecond))
	b = binary.AppendUvarint(b, uint64(t.Total))
	b = binary.AppendUvarint(b, uint64(t.Level))
	if t.Window != 0 {
		b = binary.AppendVarint(b, t.Window)
	}
	if t.Carried != 0 {
		b = binary.AppendUvarint(b, uint64(t.Carried))
	}
	return b
}

// readNote reads a note. What it says is not checked.
func readNote(note string, t *Tally) (uptime time.Duration, ok bool) {
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

const (
	maxNote = 64
	// maxNoteNumber fits times in nanoseconds when it is in microseconds.
	maxNoteNumber = 1<<53 - 1
)

const incarnationBytes = 8

func authorOf(p Peer) string {
	return string(append(binary.BigEndian.AppendUint64(nil, p.Incarnation), p.Name...))
}

func peerOf(author string) (Peer, bool) {
	if len(author) <= incarnationBytes || len(author) > incarnationBytes+maxName {
		return Peer{}, false
	}
	return Peer{Incarnation: binary.BigEndian.Uint64([]byte(author[:incarnationBytes])), Name: author[incarnationBytes:]}, true
}
