package httplimit

import (
	"math/bits"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
)

// appendWithin appends to a string of Structured Fields (RFC 9651) that has its quotes already. Such a string holds visible
// ASCII only; the names of rules and limits are made of nothing else, and what is not of it becomes an underscore. As it is
// written, it is one of JSON as well.
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

// appendJSON appends a part of a string of JSON. What is not UTF-8 becomes a replacement character.
func appendJSON(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x7f: // for who shows it as HTML all the same
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

// isQuick tells whether a limit is a bucket that fills so fast that, as long as it is filling, more of it is there within a
// second. It spares two long divisions to find that out.
func isQuick(l *headgate.Limit) bool {
	switch l.Algorithm {
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		each := l.Period / time.Duration(l.Count)
		return each > time.Microsecond && each < time.Second/2
	default:
		return false
	}
}

// isFilling tells whether a bucket is neither full nor in debt.
func isFilling(d *headgate.Decision) bool { return d.Allowed && d.Remaining >= 0 && d.ResetAfter > 0 }

// untilMore returns how long it takes until more of a limit is there. It is false if that is not known: a place in flight is
// free again when its holder is done. Buckets fill unit by unit and fixed windows end. Of windows that slide it is known only
// when all is there; as they slide by in a Period, it is not said to be later than that.
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
		taken := l.Capacity() - max(d.Remaining, 0) - 1 // units that will still be away when one more is there
		return max(d.ResetAfter-timeOf(taken, l), 0), true
	default:
		return min(d.ResetAfter, l.Period), true
	}
}

// timeOf returns how long so many units take to come back to a bucket, rounded down to whole microseconds.
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
