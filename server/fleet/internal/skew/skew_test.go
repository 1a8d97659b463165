package skew

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// The estimate is never further off than half of the fastest response time, and follows a clock that was set.
func TestADialGoesByTheFastestAnswer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		delay := func() time.Duration {
			return time.Millisecond + time.Duration(random.ExpFloat64()*float64(20*time.Millisecond))
		}
		var e Estimate
		var now time.Duration
		truth := time.Duration(random.Int64N(int64(time.Hour))) - 30*time.Minute
		for step := range 3 {
			fastest := time.Hour
			for range 100 {
				asked := now
				now += delay()
				date := now + truth
				now += delay()
				fastest = min(fastest, now-asked)
				ahead := e.Update(date, asked, now)
				if off := (ahead - truth).Abs(); off > fastest+time.Second/Drift*100 {
					t.Fatalf("seed %d, step %d: off by %v, and the fastest answer took %v", seed, step, off, fastest)
				}
				now += time.Second
			}
			truth += time.Duration(random.Int64N(int64(time.Hour))) - 30*time.Minute // for example a failover
		}
	}
}

// A clock that is off by about MaxClockSkew is reported once.
func TestADateAtTheBorderOfWhatIsToldIsToldOnce(t *testing.T) {
	t.Parallel()
	told, changes := false, 0
	for i := range 100 {
		off := fleet.MaxClockSkew + time.Duration(i%3-1)*10*time.Millisecond
		if is := IsTooLarge(off, told); is != told {
			told = is
			changes++
		}
	}
	if changes != 1 || !told {
		t.Errorf("told %d times, and it is off: %t; want once, and true", changes, told)
	}
	if IsTooLarge(fleet.MaxClockSkew/2, true) {
		t.Error("half of it is off, want right again")
	}
}
