package httplimit

import (
	"math/bits"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
)

// appendQuoted appends s to a quoted string of Structured Fields (RFC 9651), which may only contain printable ASCII.
// Other bytes become underscores. The result is also valid in a JSON string.
func appendQuoted(dst []byte, s string) []byte {
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c <= '~' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		if c == '"' || c == '\\' {
			dst = append(dst, '\\', c)
		} else {
			dst = append(dst, '_')
		}
	}
	return append(dst, s[from:]...)
}

// appendJSON appends s to a JSON string. Invalid UTF-8 becomes a replacement character.
func appendJSON(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x7f: // safe in HTML too
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

// wholeSeconds returns a duration in seconds, rounded up.
func wholeSeconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// untilMore returns the time until more units of a limit are available. For a bucket, this is the time until the next
// unit is restored. For a window, it is the time until all units are available, at most a Period. untilMore returns
// false if the time is unknown: slots become free when requests end.
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
		missing := l.Capacity() - max(d.Remaining, 0) - 1 // units that are still missing when one more is restored
		return max(d.ResetAfter-refillTime(missing, l), 0), true
	default:
		return min(d.ResetAfter, l.Period), true
	}
}

// refillTime returns the time in which units of a bucket are restored, rounded down to whole microseconds.
func refillTime(units int64, l *headgate.Limit) time.Duration {
	const maxMicros = 1 << 50 // a valid bucket refills in half of this time
	if units <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(units), uint64(l.Period.Microseconds()))
	if hi >= uint64(l.Count) {
		return maxMicros * time.Microsecond
	}
	us, _ := bits.Div64(hi, lo, uint64(l.Count))
	return time.Duration(min(us, maxMicros)) * time.Microsecond
}
