package resp

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"time"

	"github.com/headgate/headgate"
)

// throttlePrefix begins the counter keys of CL.THROTTLE. Keys of rules have no colon before their first slash.
const throttlePrefix = "cl:"

// maxPlainKey is the longest key in bytes that is used as it is. Longer keys are hashed.
const maxPlainKey = 512

// appendThrottleKey appends the counter key of a caller's key. Different keys have different counters.
func appendThrottleKey(dst, key []byte) []byte {
	dst = append(dst, throttlePrefix...)
	if len(key) <= maxPlainKey {
		dst = append(dst, '=')
		return append(dst, key...)
	}
	sum := sha256.Sum256(key)
	dst = append(dst, '#')
	return append(dst, sum[:]...)
}

// throttle replies to CL.THROTTLE key max_burst count period [quantity], like redis-cell.
func (e *executor) throttle(ctx context.Context, args [][]byte) {
	quantity := int64(1)
	burst, ok := readInt(args[2])
	count, ok2 := readInt(args[3])
	period, ok3 := readInt(args[4])
	if ok = ok && ok2 && ok3; ok && len(args) == 6 {
		quantity, ok = readInt(args[5])
	}
	if !ok {
		e.fail(textNotInteger)
		return
	}
	if quantity < 0 {
		e.fail("ERR quantity " + strconv.FormatInt(quantity, 10) + ": want 0 (to read) or more")
		return
	}
	limit, err := e.server.limits.get(throttleParams{burst, count, period})
	if err != nil {
		e.failWith(err)
		return
	}
	// More than the burst is always denied, and stores can count burst+1.
	quantity = min(quantity, limit.limit.Burst+1)
	e.key = appendThrottleKey(e.key[:0], args[1])
	var d headgate.Decision
	switch {
	case quantity == 0:
		c := headgate.Check{Key: string(e.key), Limit: limit.limit, OnFailure: e.server.config.OnFailure}
		d, err = e.server.config.Store.Peek(ctx, c)
	case limit.bound != nil:
		d, err = limit.bound.Take(borrowedString(e.key), quantity)
	case e.server.storeBorrowsKeys:
		c := headgate.Check{Key: borrowedString(e.key), Limit: limit.limit, Cost: quantity}
		d, err = e.server.config.Store.Take(ctx, c)
	default:
		c := headgate.Check{Key: string(e.key), Limit: limit.limit, Cost: quantity, OnFailure: e.server.config.OnFailure}
		d, err = e.server.config.Store.Take(ctx, c)
	}
	if errors.Is(err, headgate.ErrOverloaded) || errors.Is(err, context.DeadlineExceeded) {
		e.failWith(err)
		return
	}
	if err != nil {
		d = e.server.applyFailurePolicy(err, limit.limit.Burst, quantity)
	}
	e.out = appendThrottled(e.out, &d, limit.limit.Burst)
	if d.Allowed {
		e.allowed++
	} else {
		e.denied++
	}
}

// appendThrottled appends the five integers of redis-cell.
func appendThrottled(dst []byte, d *headgate.Decision, limit int64) []byte {
	retry := int64(-1)
	if d.Allowed {
		dst = append(dst, "*5\r\n:0\r\n"...)
	} else {
		dst = append(dst, "*5\r\n:1\r\n"...)
		if d.RetryAfter != headgate.Never {
			retry = wholeSeconds(d.RetryAfter)
		}
	}
	dst = appendInt(dst, limit)
	dst = appendInt(dst, max(d.Remaining, 0))
	dst = appendInt(dst, retry)
	return appendInt(dst, wholeSeconds(d.ResetAfter))
}

// wholeSeconds rounds up like redis-cell, which ignores fractions of a millisecond.
func wholeSeconds(d time.Duration) int64 {
	return (int64(d/time.Millisecond) + 999) / 1000
}

// failedRetry is the retry time when the store has failed.
const failedRetry = time.Second

// applyFailurePolicy decides by the failure policy.
func (s *Server) applyFailurePolicy(err error, limit, quantity int64) headgate.Decision {
	s.storeFailed(err)
	if s.config.OnFailure == headgate.Closed {
		return headgate.Decision{Limit: limit, RetryAfter: failedRetry, Degraded: true}
	}
	return headgate.Decision{Allowed: true, Limit: limit, Remaining: max(limit-quantity, 0), Degraded: true}
}

// readInt parses an integer like Redis: no spaces, no plus sign, no leading zeros.
func readInt(b []byte) (int64, bool) {
	n := len(b)
	if n == 0 || n > 20 {
		return 0, false
	}
	at, negative := 0, b[0] == '-'
	if negative {
		at = 1
	}
	if at == n || b[at] == '0' && n > 1 {
		return 0, false
	}
	var value uint64
	for ; at < n; at++ {
		digit := b[at] - '0'
		if digit > 9 || value > (1<<63)/10 {
			return 0, false
		}
		value = value*10 + uint64(digit)
	}
	switch {
	case negative && value <= 1<<63:
		return -int64(value), true
	case !negative && value < 1<<63:
		return int64(value), true
	default:
		return 0, false
	}
}
