package resp

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// throttleParams are the parameters of CL.THROTTLE that define a limit.
type throttleParams struct {
	burst, count, period int64 // period in seconds
}

// A preparedLimit is a validated limit and the parameters that define it.
type preparedLimit struct {
	throttleParams
	limit headgate.Limit
	bound Bound // the limit, prepared by Config.Bind; nil if Bind is nil
}

// limitCache caches the limits of recent CL.THROTTLE commands. Clients choose the limits, so the number of slots is
// fixed. Two limits with the same slot replace each other.
type limitCache struct {
	bind  func(headgate.Limit) (Bound, error)
	slots [1 << limitCacheBits]atomic.Pointer[preparedLimit]
}

const limitCacheBits = 10 // 1024 slots

// get returns the limit for t. The error is a *headgate.InputError for invalid parameters.
func (c *limitCache) get(t throttleParams) (*preparedLimit, error) {
	// A multiplicative hash with odd random factors. Its upper bits depend on all bits of t, so they are the index.
	h := uint64(t.burst)*0x9E3779B97F4A7C15 ^ uint64(t.count)*0xC2B2AE3D27D4EB4F ^ uint64(t.period)*0x165667B19E3779F9
	slot := &c.slots[(h^h>>32)*0x9E3779B97F4A7C15>>(64-limitCacheBits)]
	if prepared := slot.Load(); prepared != nil && prepared.throttleParams == t {
		return prepared, nil
	}
	prepared, err := c.prepare(t)
	if err != nil {
		return nil, err
	}
	slot.Store(prepared)
	return prepared, nil
}

func (c *limitCache) prepare(t throttleParams) (*preparedLimit, error) {
	if t.burst < 0 || t.burst >= headgate.MaxCount {
		return nil, outOfRange("max_burst", t.burst, 0, headgate.MaxCount-1)
	}
	if t.count < 1 || t.count > headgate.MaxCount {
		return nil, outOfRange("count", t.count, 1, headgate.MaxCount)
	}
	const maxPeriod = int64(headgate.MaxPeriod / time.Second)
	if t.period < 1 || t.period > maxPeriod {
		return nil, outOfRange("period", t.period, 1, maxPeriod)
	}
	// Like redis-cell, max_burst does not count the first request.
	prepared := &preparedLimit{throttleParams: t, limit: headgate.Limit{
		Algorithm: headgate.GCRA, Count: t.count, Period: time.Duration(t.period) * time.Second, Burst: t.burst + 1,
	}}
	if err := prepared.limit.Validate(); err != nil {
		return nil, err
	}
	if c.bind == nil {
		return prepared, nil
	}
	bound, err := c.bind(prepared.limit)
	if err != nil {
		return nil, err
	}
	prepared.bound = bound
	return prepared, nil
}

func outOfRange(field string, value, minimum, maximum int64) error {
	return &headgate.InputError{
		Err: headgate.ErrInvalidLimit, Field: field, Value: strconv.FormatInt(value, 10),
		Want: strconv.FormatInt(minimum, 10) + " to " + strconv.FormatInt(maximum, 10),
	}
}
