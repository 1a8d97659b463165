package resp

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// A throttleParams has the parameters of CL.THROTTLE that define a limit.
type throttleParams struct {
	burst, count, period int64 // period in seconds
}

// A preparedLimit limit is a parsed and bound limit.
type preparedLimit struct {
	throttleParams
	limit headgate.Limit
	bound Bound // nil if Config.Bind is nil
}

// limitCache caches recent limits. Callers choose them, so its size is fixed: limits with the same index replace each
// other.
type limitCache struct {
	bind  func(headgate.Limit) (Bound, error)
	slots [1 << limitCacheBits]atomic.Pointer[preparedLimit]
}

const limitCacheBits = 10

// get returns the limit for t. The error is a *headgate.InputError for invalid parameters.
func (r *limitCache) get(t throttleParams) (*preparedLimit, error) {
	h := uint64(t.burst)*0x9E3779B97F4A7C15 ^ uint64(t.count)*0xC2B2AE3D27D4EB4F ^ uint64(t.period)*0x165667B19E3779F9
	slot := &r.slots[(h^h>>32)*0x9E3779B97F4A7C15>>(64-limitCacheBits)]
	if prepared := slot.Load(); prepared != nil && prepared.throttleParams == t {
		return prepared, nil
	}
	prepared, err := r.prepare(t)
	if err != nil {
		return nil, err
	}
	slot.Store(prepared)
	return prepared, nil
}

func (r *limitCache) prepare(t throttleParams) (*preparedLimit, error) {
	if t.burst < 0 || t.burst >= headgate.MaxCount {
		return nil, badThrottle("max_burst", t.burst, headgate.MaxCount-1, 0)
	}
	if t.count < 1 || t.count > headgate.MaxCount {
		return nil, badThrottle("count", t.count, headgate.MaxCount, 1)
	}
	const longest = int64(headgate.MaxPeriod / time.Second)
	if t.period < 1 || t.period > longest {
		return nil, badThrottle("period", t.period, longest, 1)
	}
	prepared := &preparedLimit{throttleParams: t, limit: headgate.Limit{
		Algorithm: headgate.GCRA, Count: t.count, Period: time.Duration(t.period) * time.Second, Burst: t.burst + 1,
	}}
	if err := prepared.limit.Validate(); err != nil {
		return nil, err
	}
	if r.bind == nil {
		return prepared, nil
	}
	bound, err := r.bind(prepared.limit)
	if err != nil {
		return nil, err
	}
	prepared.bound = bound
	return prepared, nil
}

func badThrottle(field string, value, most, least int64) error {
	return &headgate.InputError{
		Err: headgate.ErrInvalidLimit, Field: field, Value: strconv.FormatInt(value, 10),
		Want: strconv.FormatInt(least, 10) + " to " + strconv.FormatInt(most, 10),
	}
}
