package httplimit

import (
	"math/bits"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
)

// appendWithin appends to a quoted string of Structured Fields (RFC 9651). Such a string holds visible ASCII only; the
// names of rules and limits consist of it, and other bytes become underscores. The result is valid in a JSON string as
// well.
func appendWithin(dst []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c > '~':
			dst = append(dst, '_')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// appendJSON appends a part of a JSON string. Invalid UTF-8 becomes a replacement character.
func appendJSON(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x7f: // safe even if it is shown as HTML
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xf])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		i++
	}
	return dst
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// isQuick reports whether a limit is a bucket that restores a unit within a second while it is filling. Knowing that
// saves two divisions.
func isQuick(l *headgate.Limit) bool {
	switch l.Algorithm {
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		each := l.Period / time.Duration(l.Count)
		return each > time.Microsecond && each < time.Second/2
	default:
		return false
	}
}

// isFilling reports whether a bucket is neither full nor in debt.
func isFilling(d *headgate.Decision) bool { return d.Allowed && d.Remaining >= 0 && d.ResetAfter > 0 }

// untilMore returns the time until more of a limit is available. It returns false if that is unknown: a slot is free
// when its holder releases it. Buckets restore unit by unit, and fixed windows end. For sliding windows only the full
// restoration is known, which takes at most a Period.
func untilMore(l *headgate.Limit, d *headgate.Decision) (time.Duration, bool) {
	switch {
	case !d.Allowed:
		return d.RetryAfter, d.RetryAfter != headgate.Never
	case l.Algorithm == headgate.Concurrency:
		return 0, false
	case d.ResetAfter <= 0:
		return 0, true
	}
	switch l.Algorithm {
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		taken := l.Capacity() - max(d.Remaining, 0) - 1 // units that are still missing when one more is restored
		return max(d.ResetAfter-timeOf(taken, l), 0), true
	default:
		return min(d.ResetAfter, l.Period), true
	}
}

// timeOf returns the time in which units of a bucket are restored, rounded down to whole microseconds.
func timeOf(units int64, l *headgate.Limit) time.Duration {
	const most = 1 << 50 // µs; a valid bucket refills in half of it
	if units <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(units), uint64(l.Period.Microseconds()))
	if hi >= uint64(l.Count) {
		return most * time.Microsecond
	}
	us, _ := bits.Div64(hi, lo, uint64(l.Count))
	return time.Duration(min(us, most)) * time.Microsecond
}
