package limittest

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// The limits with which properties are checked. Some are ordinary; others have an interval between units that is not a
// whole number of microseconds, a count of one, a huge count, or the longest period.
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

	// promiseLimits are limits of the algorithms that declare a Promise.
	promiseLimits = limitsOfEach(declaresPromise, "20/s", "7/m", "1/h", "999983/d", "1099511627776/366d")

	windowLimits = slices.Concat(fixedLimits, logLimits, slidingLimits, subBucketLimits, promiseLimits)
	timedLimits  = slices.Concat(bucketLimits, windowLimits) // all limits whose algorithm depends on time alone
	allLimits    = slices.Concat(timedLimits, inFlightLimits)
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

// declaresPromise reports whether an algorithm declares its guarantee.
func declaresPromise(a headgate.Algorithm) bool {
	_, ok := algorithm.PromiseOf(headgate.Limit{Algorithm: a, Count: 1, Period: time.Second})
	return ok
}

// dependsOnTime reports whether time alone decides what an algorithm admits.
func dependsOnTime(a headgate.Algorithm) bool { return a != headgate.Concurrency }

// forEach returns the same test for each of the limits.
func forEach(group, what string, limits []headgate.Limit, run func(*trial, headgate.Limit)) []suiteTest {
	tests := make([]suiteTest, len(limits))
	for i, l := range limits {
		tests[i] = suiteTest{
			group: group,
			name:  what + "/" + strings.ReplaceAll(l.String(), "/", " per "),
			run:   func(tr *trial) { run(tr, l) },
		}
	}
	return tests
}

// isBucket reports whether a limit's algorithm has a level that drains.
func isBucket(l headgate.Limit) bool {
	return l.Algorithm == headgate.TokenBucket || l.Algorithm == headgate.GCRA || l.Algorithm == headgate.LeakyBucket
}

// restoreTime returns the time in which a limit is fully restored: its period, or its TTL.
func restoreTime(l headgate.Limit) time.Duration {
	if l.Algorithm != headgate.Concurrency {
		return l.Period
	}
	if l.TTL == 0 {
		return headgate.DefaultTTL
	}
	return l.TTL
}

// windowWidth returns the width of the windows, or sub-buckets, of a limit.
func windowWidth(l headgate.Limit) time.Duration {
	if l.Algorithm != headgate.SlidingBuckets {
		return restoreTime(l)
	}
	if l.Buckets == 0 {
		return l.Period / headgate.DefaultBuckets
	}
	return l.Period / time.Duration(l.Buckets)
}

// randomPause returns a random time until the next step, so that steps find a limit empty, full and at its window
// boundaries. sinceStart is the time of the clock.
func randomPause(rng *rand.Rand, l headgate.Limit, sinceStart time.Duration) time.Duration {
	unit := max(restoreTime(l)/time.Duration(l.Count), time.Microsecond)
	switch rng.IntN(16) {
	case 0, 1, 2, 3:
		return 0
	case 4:
		return time.Microsecond
	case 5, 6, 7, 8, 9:
		return randomDuration(rng, 2*unit)
	case 10, 11, 12:
		return randomDuration(rng, restoreTime(l)/8)
	case 13, 14: // to the next window boundary, or close to it
		width := windowWidth(l)
		at := time.Duration(Start.UnixMicro()%width.Microseconds())*time.Microsecond + sinceStart
		return max(0, width-at%width+time.Duration(rng.IntN(3)-1)*time.Microsecond)
	default:
		if sinceStart > maxHistory {
			return 0
		}
		return randomDuration(rng, 3*restoreTime(l))
	}
}

// maxHistory is the length of a history after which it takes no long steps, so that a Duration, which holds 292 years,
// does not overflow.
const maxHistory = 100 * 366 * 24 * time.Hour

// randomDuration returns a time of whole microseconds from 0 to upTo.
func randomDuration(rng *rand.Rand, upTo time.Duration) time.Duration {
	return time.Duration(rng.Int64N(upTo.Microseconds()+1)) * time.Microsecond
}

// randomCost returns a number of units to take: often one, often a part of the capacity, now and then all of it.
func randomCost(rng *rand.Rand, l headgate.Limit) int64 {
	capacity := l.Capacity()
	switch rng.IntN(8) {
	case 0, 1, 2, 3:
		return 1
	case 4, 5:
		return 1 + rng.Int64N(capacity/4+1)
	case 6:
		return 1 + rng.Int64N(capacity)
	default:
		return capacity
	}
}
