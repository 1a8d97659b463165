package pacer

import "time"

// Rate is a number of permits per length of time, such as 300 per second or 7 per hour. It is exact: the interval
// between two permits is not rounded to nanoseconds.
//
// The zero Rate is not valid.
type Rate struct {
	// Permits is the number of permits in each Per, at least 1.
	Permits int64
	// Per is the length of time, from 1 ns to 2^61−1 ns, which is 73 years.
	Per time.Duration
}

// PerSecond returns a rate of permits per second.
func PerSecond(permits int64) Rate { return Rate{Permits: permits, Per: time.Second} }

// PerMinute returns a rate of permits per minute.
func PerMinute(permits int64) Rate { return Rate{Permits: permits, Per: time.Minute} }

// String returns the rate in the form "300 per 1s".
func (r Rate) String() string { return decimal(r.Permits) + " per " + r.Per.String() }

func (r Rate) validate() error {
	switch {
	case r.Permits < 1:
		return badOption("Rate.Permits", decimal(r.Permits), "1 or more")
	case r.Per < 1:
		return badOption("Rate.Per", r.Per.String(), "a positive duration, such as time.Second")
	case int64(r.Per) >= farFuture:
		return badOption("Rate.Per", r.Per.String(), "less than 73 years")
	}
	return nil
}

// reduced returns the rate in lowest terms: permits per nanoseconds.
func (r Rate) reduced() (permits, nanos uint64) {
	permits, nanos = uint64(r.Permits), uint64(r.Per)
	d := gcd(permits, nanos)
	return permits / d, nanos / d
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
