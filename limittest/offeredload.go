package limittest

import (
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// offeredLoadTests check that a limit denies no request without cause. A limit of 20 per second must admit all requests
// if up to 20 per second arrive, and 20 per second if more arrive.
func offeredLoadTests() []suiteTest {
	limits := slices.Concat(limitsOfEach(dependsOnTime, "20/s"), parseLimits("20 concurrent ttl 1s"))
	return forEach("offered load", "20 a second", limits, func(tr *trial, l headgate.Limit) {
		for _, offered := range []int64{1, 2, 5, 10, 20, 25, 50, 100} {
			tr.admitsOffered(l, offered)
		}
	})
}

// admitsOffered sends requests at an even rate for ten seconds. It retries each request after RetryAfter until it is
// admitted.
//
// If more requests arrive than the limit allows, limit·T requests must be admitted until a time T. A token-bucket or
// gcra additionally admits its burst. For a leaky-bucket, a request counts when its delay ends. For concurrency, each
// request holds one of 20 slots for a second. T is the last whole second with waiting requests, so that it does not end
// in the middle of a window. Algorithms with a promise may have windows at other times, so the last window may have
// admitted its whole limit already.
func (tr *trial) admitsOffered(l headgate.Limit, offered int64) {
	const seconds, limit = 10, 20
	tr.setElapsed(0)
	tr.limiter = tr.maker(tr.TB, tr.Now)
	passed := tr.offer(l, offered, seconds*offered)
	end := int64(seconds)
	want, burst, windowSlack := float64(offered), 0.0, 0.0
	if offered > limit {
		end = int64(passed[len(passed)-1] / time.Second)
		want = limit
		if l.Algorithm == headgate.TokenBucket || l.Algorithm == headgate.GCRA {
			burst = float64(l.Capacity())
		}
		if declaresPromise(l.Algorithm) {
			windowSlack = float64(l.Capacity())
		}
	}
	var count float64
	for _, at := range passed {
		if at < time.Duration(end)*time.Second {
			count++
		}
	}
	got := (count - burst) / float64(end)
	if maxRate := want*1.01 + windowSlack/float64(end); got < want*0.99 || got > maxRate {
		tr.Errorf("%s: %d offered at %d a second: %.3f a second passed in %d s beyond a burst of %v, want %.3f to %.3f",
			l, seconds*offered, offered, got, end, burst, want*0.99, maxRate)
	}
}

// offer sends requests at a rate, and returns when each of them was admitted and its delay was over. A request is sent
// only after all earlier requests were admitted, because it would be denied before that.
func (tr *trial) offer(l headgate.Limit, perSecond, total int64) []time.Duration {
	const maxTries = 100
	passed := make([]time.Duration, 0, total)
	for i := range total {
		arrives := time.Duration(i) * time.Second / time.Duration(perSecond)
		tr.setElapsed(max(arrives, tr.elapsed()))
		d := tr.take("alice", l, 1)
		for tries := 1; !d.Allowed; tries++ {
			if tries == maxTries {
				tr.Fatalf("%s: request %d of %d was denied %d times: %+v", l, i, total, tries, d)
			}
			tr.Advance(d.RetryAfter)
			d = tr.take("alice", l, 1)
		}
		passed = append(passed, tr.elapsed()+d.Delay)
	}
	return passed
}
