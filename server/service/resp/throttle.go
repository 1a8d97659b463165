package resp

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"time"

	"github.com/headgate/headgate"
)

// throttlePrefix is the prefix of the counter keys of CL.THROTTLE. The counter keys of rules differ from them, because
// they have no colon before their first slash.
const throttlePrefix = "cl:"

// maxPlainKey is the maximum length, in bytes, of a key that becomes part of the counter key unchanged. Longer keys are
// hashed.
const maxPlainKey = 512

// appendThrottleKey appends the counter key for the key in a command. Different keys have different counter keys,
// because the character after the prefix is different for hashed keys.
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
	burst, burstOK := readInt(args[2])
	count, countOK := readInt(args[3])
	period, periodOK := readInt(args[4])
	quantity, quantityOK := int64(1), true
	if len(args) == 6 {
		quantity, quantityOK = readInt(args[5])
	}
	if !burstOK || !countOK || !periodOK || !quantityOK {
		e.fail(textNotInteger)
		return
	}
	if quantity < 0 {
		e.fail("ERR quantity " + strconv.FormatInt(quantity, 10) + ": want 0 (to read) or more")
		return
	}
	prepared, err := e.server.limitCache.get(throttleParams{burst, count, period})
	if err != nil {
		e.failWith(err)
		return
	}
	limit := prepared.limit
	// A quantity above the burst is always denied. It is reduced, because stores have a maximum for the cost of a check.
	quantity = min(quantity, limit.Burst+1)
	e.key = appendThrottleKey(e.key[:0], args[1])
	var d headgate.Decision
	switch {
	case quantity == 0:
		c := headgate.Check{Key: string(e.key), Limit: limit, OnFailure: e.server.config.OnFailure}
		d, err = e.server.config.Store.Peek(ctx, c)
	case prepared.bound != nil:
		d, err = prepared.bound.Take(borrowedString(e.key), quantity)
	case e.server.storeInProcess:
		c := headgate.Check{Key: borrowedString(e.key), Limit: limit, Cost: quantity}
		d, err = e.server.config.Store.Take(ctx, c)
	default:
		c := headgate.Check{Key: string(e.key), Limit: limit, Cost: quantity, OnFailure: e.server.config.OnFailure}
		d, err = e.server.config.Store.Take(ctx, c)
	}
	if errors.Is(err, headgate.ErrOverloaded) || errors.Is(err, context.DeadlineExceeded) {
		e.failWith(err)
		return
	}
	if err != nil {
		d = e.server.applyFailurePolicy(err, limit.Burst, quantity)
	}
	e.out = appendThrottleReply(e.out, &d, limit.Burst)
	if d.Allowed {
		e.allowed++
	} else {
		e.denied++
	}
}

// appendThrottleReply appends redis-cell's reply of five integers: 0 if the request is allowed and 1 if not, the limit,
// the remaining units, the seconds until a retry may pass, and the seconds until the counter is fully reset. The
// seconds until a retry are -1 if the request is allowed or can never pass.
func appendThrottleReply(dst []byte, d *headgate.Decision, limit int64) []byte {
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

// wholeSeconds returns d in seconds as redis-cell does: it drops the fraction of a millisecond, and then rounds up.
func wholeSeconds(d time.Duration) int64 {
	return (int64(d/time.Millisecond) + 999) / 1000
}

// retryAfterFailure is the time after which a client may retry a request that was denied because the store has failed.
const retryAfterFailure = time.Second

// applyFailurePolicy reports the store failure err, and decides by Config.OnFailure.
func (s *Server) applyFailurePolicy(err error, limit, quantity int64) headgate.Decision {
	s.reportStoreFailure(err)
	if s.config.OnFailure == headgate.Closed {
		return headgate.Decision{Limit: limit, RetryAfter: retryAfterFailure, Degraded: true}
	}
	return headgate.Decision{Allowed: true, Limit: limit, Remaining: max(limit-quantity, 0), Degraded: true}
}

// readInt parses an integer as Redis does: it accepts no spaces, no plus sign and no leading zeros.
func readInt(b []byte) (int64, bool) {
	n := len(b)
	if n == 0 || n > 20 {
		return 0, false
	}
	pos, negative := 0, b[0] == '-'
	if negative {
		pos = 1
	}
	if pos == n || b[pos] == '0' && n > 1 {
		return 0, false
	}
	var value uint64
	for ; pos < n; pos++ {
		digit := b[pos] - '0' // more than 9 if it is not a digit, because bytes have no negative values
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
