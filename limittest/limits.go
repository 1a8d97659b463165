package limittest

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// The limits that properties are checked with: plain ones, ones whose rate is no whole number of microseconds, of one
// unit, of huge counts, and the longest.
var (
	bucketLimits = parseLimits(
		"10/s", "10/s burst 20", "300/s", "7/s burst 3", "1/m", "999983/d", "1000000/s burst 5", "3/366d burst 2",
		"1099511627776/366d",
		"10/s gcra burst 20", "7/s gcra burst 3", "999983/d gcra",
		"10/s leaky-bucket burst 20", "7/s leaky-bucket burst 3", "300/s leaky-bucket")
	fixedLimits = parseLimits("20/s fixed-window", "7/m fixed-window", "1/ms fixed-window",
		"100/h fixed-window staggered", "9/30d fixed-window staggered")
	logLimits     = parseLimits("20/s sliding-log", "7/m sliding-log", "1/h sliding-log")
	slidingLimits = parseLimits("20/s sliding-window", "7/m sliding-window", "1/h sliding-window",
		"1099511627776/366d sliding-window")
	subBucketLimits = parseLimits("20/s sliding-buckets", "7/m sliding-buckets 60", "100/h sliding-buckets 3",
		"1/s sliding-buckets 2")
	inFlightLimits = parseLimits("20 concurrent ttl 1s", "3 concurrent", "1 concurrent ttl 10ms")

	// countingLimits are those of the algorithms that declare their guarantee.
	countingLimits = limitsOfEach(counting, "20/s", "7/m", "1/h", "999983/d", "1099511627776/366d")

	windowLimits = concat(fixedLimits, logLimits, slidingLimits, subBucketLimits, countingLimits)
	timedLimits  = concat(bucketLimits, windowLimits) // all that depend on time alone
	allLimits    = concat(timedLimits, inFlightLimits)
)

func parseLimits(texts ...string) []headgate.Limit {
	limits := make([]headgate.Limit, len(texts))
	for i, text := range texts {
		limits[i] = headgate.MustParseLimit(text)
	}
	return limits
}

// limitsOfEach returns limits for each of some algorithms.
func limitsOfEach(which func(headgate.Algorithm) bool, texts ...string) []headgate.Limit {
	var limits []headgate.Limit
	for _, a := range headgate.Algorithms() {
		for _, text := range texts {
			if which(a) {
				limits = append(limits, headgate.MustParseLimit(text+" "+a.String()))
			}
		}
	}
	return limits
}

// counting reports whether an algorithm declares its guarantee.
func counting(a headgate.Algorithm) bool {
	_, ok := algorithm.PromiseOf(headgate.Limit{Algorithm: a, Count: 1, Period: time.Second})
	return ok
}

// timed reports whether time alone decides what an algorithm admits.
func timed(a headgate.Algorithm) bool { return a != headgate.Concurrency }

func concat(lists ...[]headgate.Limit) []headgate.Limit {
	var all []headgate.Limit
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// forEach returns the same check for each of the limits.
func forEach(group, what string, limits []headgate.Limit, run func(*trial, headgate.Limit)) []check {
	checks := make([]check, len(limits))
	for i, l := range limits {
		checks[i] = check{
			group: group,
			name:  what + "/" + strings.ReplaceAll(l.String(), "/", " per "),
			run:   func(tr *trial) { run(tr, l) },
		}
	}
	return checks
}

// isBucket reports whether a limit's algorithm has a level that drains.
func isBucket(l headgate.Limit) bool {
	return l.Algorithm == headgate.TokenBucket || l.Algorithm == headgate.GCRA || l.Algorithm == headgate.LeakyBucket
}

// span returns the time in which a limit is fully restored: its period, or its TTL.
func span(l headgate.Limit) time.Duration {
	if l.Algorithm != headgate.Concurrency {
		return l.Period
	}
	if l.TTL == 0 {
		return headgate.DefaultTTL
	}
	return l.TTL
}

// grain returns the width of the windows of a limit, the critical times of a history.
func grain(l headgate.Limit) time.Duration {
	if l.Algorithm != headgate.SlidingBuckets {
		return span(l)
	}
	if l.Buckets == 0 {
		return l.Period / headgate.DefaultBuckets
	}
	return l.Period / time.Duration(l.Buckets)
}

// pause returns a random time until the next step, so that steps find a limit empty, full and at its window boundaries.
// sinceStart is the time of the clock.
func pause(rng *rand.Rand, l headgate.Limit, sinceStart time.Duration) time.Duration {
	unit := max(span(l)/time.Duration(l.Count), time.Microsecond)
	switch rng.IntN(16) {
	case 0, 1, 2, 3:
		return 0
	case 4:
		return time.Microsecond
	case 5, 6, 7, 8, 9:
		return draw(rng, 2*unit)
	case 10, 11, 12:
		return draw(rng, span(l)/8)
	case 13, 14: // to the next window boundary, or close to it
		g := grain(l)
		at := time.Duration(Start.UnixMicro()%g.Microseconds())*time.Microsecond + sinceStart
		return max(0, g-at%g+time.Duration(rng.IntN(3)-1)*time.Microsecond)
	default:
		if sinceStart > longest {
			return 0
		}
		return draw(rng, 3*span(l))
	}
}

// longest is the length of a history after which it takes no long steps: a Duration holds 292 years.
const longest = 100 * 366 * 24 * time.Hour

// draw returns a time of whole microseconds from 0 to most.
func draw(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(most.Microseconds()+1)) * time.Microsecond
}

// cost draws how many units to take: often one, often enough to exhaust the limit soon, now and then all.
func cost(rng *rand.Rand, l headgate.Limit) int64 {
	most := l.Capacity()
	switch rng.IntN(8) {
	case 0, 1, 2, 3:
		return 1
	case 4, 5:
		return 1 + rng.Int64N(most/4+1)
	case 6:
		return 1 + rng.Int64N(most)
	default:
		return most
	}
}
