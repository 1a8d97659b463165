package headgate

import (
	"math/bits"
	"strconv"
	"time"
)

// The largest values in a limit. Validate refuses larger ones. Up to these values every store computes exactly, even
// Redis, whose Lua scripts compute exactly only up to 2^53.
const (
	// MaxCount is the largest Count and Burst.
	MaxCount = 1 << 40
	// MaxPeriod is the longest Period and TTL. The shortest is 1 µs, and both are whole microseconds.
	MaxPeriod = 366 * 24 * time.Hour
	// MaxLogCount is the largest Count of a sliding-log and of concurrency, whose memory grows with it.
	MaxLogCount = 1 << 16
	// MaxBuckets is the largest number of sub-buckets of sliding-buckets.
	MaxBuckets = 1000
)

// Defaults for fields that are zero.
const (
	// DefaultBuckets is the number of sub-buckets of sliding-buckets.
	DefaultBuckets = 10
	// DefaultTTL is the time after which a slot of a concurrency limit expires unless it is renewed.
	DefaultTTL = time.Minute
)

// A Limit says how many units may pass. The zero Limit is invalid: create a Limit with ParseLimit, with PerSecond or a
// similar function, or as a literal. Limits are comparable and can be copied.
type Limit struct {
	// Algorithm defines how units are counted. The default is TokenBucket.
	Algorithm Algorithm
	// Count is how many units may pass in a Period, or be in flight at once: 1 to MaxCount.
	Count int64
	// Period is the time in which Count units may pass: whole microseconds, 1 µs to MaxPeriod. It must be 0 for
	// concurrency.
	Period time.Duration
	// Burst is how many units token-bucket and gcra admit at once, and how many may wait in a leaky-bucket. The default is
	// Count. It must be 0 for other algorithms.
	Burst int64
	// Buckets is the number of sub-buckets into which sliding-buckets divides the Period, which must be possible in whole
	// microseconds. The default is DefaultBuckets. It must be 0 for other algorithms.
	Buckets int
	// TTL is the time after which a slot of a concurrency limit expires unless its holder renews it, so that the slot of a
	// crashed holder becomes free. The default is DefaultTTL. It must be 0 for other algorithms.
	TTL time.Duration
	// Staggered makes the windows of a fixed-window begin at a different time for every key, so that clients do not all
	// come back at the full hour. It must be false for other algorithms.
	Staggered bool
}

// Per returns a token-bucket limit of count units a period.
func Per(count int64, period time.Duration) Limit { return Limit{Count: count, Period: period} }

// PerSecond returns a token-bucket limit of count units a second.
func PerSecond(count int64) Limit { return Per(count, time.Second) }

// PerMinute returns a token-bucket limit of count units a minute.
func PerMinute(count int64) Limit { return Per(count, time.Minute) }

// PerHour returns a token-bucket limit of count units an hour.
func PerHour(count int64) Limit { return Per(count, time.Hour) }

// PerDay returns a token-bucket limit of count units in 24 hours. For a quota by the calendar day use a fixed-window.
func PerDay(count int64) Limit { return Per(count, day) }

// InFlight returns a concurrency limit: at most count units are in flight at once.
func InFlight(count int64) Limit { return Limit{Algorithm: Concurrency, Count: count} }

// Capacity returns the largest cost that can be taken at once: Burst, or Count if Burst is 0.
func (l Limit) Capacity() int64 {
	if l.Burst != 0 {
		return l.Burst
	}
	return l.Count
}

// Validate returns an *InputError that says why no Limiter accepts this limit, or nil. It refuses custom algorithms,
// which only stores that have them can validate.
func (l Limit) Validate() error {
	if int(l.Algorithm) >= len(algorithms) {
		return badLimit("Algorithm", l.Algorithm.String(), algorithmList())
	}
	if err := l.validateCount(); err != nil {
		return err
	}
	if l.Algorithm.has(ttlSetting) {
		if l.Period != 0 {
			return badLimit("Period", l.Period.String(),
				"none: "+l.Algorithm.String()+" limits requests in flight, not requests in a period")
		}
		if l.TTL != 0 {
			if err := validateDuration("TTL", l.TTL); err != nil {
				return err
			}
		}
	} else {
		if err := validateDuration("Period", l.Period); err != nil {
			return err
		}
		if l.TTL != 0 {
			return badLimit("TTL", l.TTL.String(), "none: only "+algorithmsWith(ttlSetting, "has", "have")+" one")
		}
		if maxBurst := l.maxBurst(); l.Burst > maxBurst {
			return badLimit("Burst", strconv.FormatInt(l.Burst, 10),
				"at most "+strconv.FormatInt(maxBurst, 10)+", which refills in 17 years at this rate")
		}
	}
	return l.validateWindows()
}

func (l Limit) validateCount() error {
	maxCount := int64(MaxCount)
	if l.Algorithm.has(growingState) {
		maxCount = MaxLogCount
	}
	if l.Count < 1 || l.Count > maxCount {
		want := "1 to " + strconv.FormatInt(maxCount, 10)
		if maxCount == MaxLogCount && l.Count > maxCount {
			want += " for " + l.Algorithm.String() + ", whose memory grows with it"
		}
		return badLimit("Count", strconv.FormatInt(l.Count, 10), want)
	}
	if l.Burst == 0 {
		return nil
	}
	if !l.Algorithm.has(burstSetting) {
		return badLimit("Burst", strconv.FormatInt(l.Burst, 10),
			"none: only "+algorithmsWith(burstSetting, "has", "have")+" one, not "+l.Algorithm.String())
	}
	if l.Burst < 1 || l.Burst > MaxCount {
		return badLimit("Burst", strconv.FormatInt(l.Burst, 10), "1 to "+strconv.FormatInt(MaxCount, 10))
	}
	return nil // Validate compares Burst with maxBurst later, because maxBurst needs a valid Period
}

// maxBurst returns the largest burst that refills within 2^49 µs (17 years). A debt is at most MaxDebt bursts, so the
// time to repay it stays below 2^53 µs, up to which Lua scripts compute exactly.
func (l Limit) maxBurst() int64 {
	hi, lo := bits.Mul64(uint64(l.Count), 1<<49)
	period := uint64(l.Period.Microseconds())
	if hi >= period {
		return MaxCount
	}
	maxBurst, _ := bits.Div64(hi, lo, period)
	return int64(min(maxBurst, MaxCount))
}

// validateWindows validates Staggered and Buckets.
func (l Limit) validateWindows() error {
	if l.Staggered && !l.Algorithm.has(staggeredSetting) {
		return badLimit("Staggered", "true",
			"false: only "+algorithmsWith(staggeredSetting, "can", "can")+" be staggered, not "+l.Algorithm.String())
	}
	if !l.Algorithm.has(bucketsSetting) {
		if l.Buckets != 0 {
			return badLimit("Buckets", strconv.Itoa(l.Buckets),
				"none: only "+algorithmsWith(bucketsSetting, "has", "have")+" them")
		}
		return nil
	}
	n := l.Buckets
	if n == 0 {
		n = DefaultBuckets
	}
	if n < 2 || n > MaxBuckets {
		return badLimit("Buckets", strconv.Itoa(l.Buckets), "2 to "+strconv.Itoa(MaxBuckets))
	}
	if us := l.Period.Microseconds(); us%int64(n) != 0 {
		return badLimit("Buckets", strconv.Itoa(n),
			"a number that divides the period's "+strconv.FormatInt(us, 10)+" µs")
	}
	return nil
}

func validateDuration(field string, d time.Duration) error {
	if d < time.Microsecond || d > MaxPeriod || d%time.Microsecond != 0 {
		return badLimit(field, d.String(), "whole microseconds from 1µs to "+formatPeriod(MaxPeriod))
	}
	return nil
}
