package resp

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// A triple is the limit of a CL.THROTTLE as it is written there.
type triple struct {
	burst, count, period int64 // period in seconds
}

// A ready limit is one that was asked for before.
type ready struct {
	triple
	limit headgate.Limit
	bound Bound // nil if the store binds none
}

// readyLimits remembers limits that were asked for lately. Callers choose them, so there is room for so many and no more:
// those that share a place displace each other.
type readyLimits struct {
	bind   func(headgate.Limit) (Bound, error)
	places [1 << readyBits]atomic.Pointer[ready]
}

const readyBits = 10

// get returns a limit made ready. The error is a *headgate.InputError for one that there cannot be.
func (r *readyLimits) get(t triple) (*ready, error) {
	h := uint64(t.burst)*0x9E3779B97F4A7C15 ^ uint64(t.count)*0xC2B2AE3D27D4EB4F ^ uint64(t.period)*0x165667B19E3779F9
	place := &r.places[(h^h>>32)*0x9E3779B97F4A7C15>>(64-readyBits)]
	if made := place.Load(); made != nil && made.triple == t {
		return made, nil
	}
	made, err := r.make(t)
	if err != nil {
		return nil, err
	}
	place.Store(made)
	return made, nil
}

func (r *readyLimits) make(t triple) (*ready, error) {
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
	made := &ready{triple: t, limit: headgate.Limit{
		Algorithm: headgate.GCRA, Count: t.count, Period: time.Duration(t.period) * time.Second, Burst: t.burst + 1,
	}}
	if err := made.limit.Validate(); err != nil {
		return nil, err
	}
	if r.bind == nil {
		return made, nil
	}
	bound, err := r.bind(made.limit)
	if err != nil {
		return nil, err
	}
	made.bound = bound
	return made, nil
}

func badThrottle(field string, value, most, least int64) error {
	return &headgate.InputError{
		Err: headgate.ErrInvalidLimit, Field: field, Value: strconv.FormatInt(value, 10),
		Want: strconv.FormatInt(least, 10) + " to " + strconv.FormatInt(most, 10),
	}
}
