package pacer

import (
	"testing"
	"time"
)

// step is one call of a schedule: n permits asked for at an instant, and how long they had to wait.
type step struct {
	at   time.Duration
	n    int64
	wait time.Duration
}

func playSteps(t *testing.T, sched schedule, s state, steps []step) {
	t.Helper()
	for i, step := range steps {
		var grant int64
		s, grant = sched.take(s, int64(step.at), step.n)
		if got := time.Duration(grant) - step.at; got != step.wait {
			t.Errorf("step %d: at %v take %d waits %v, want %v", i+1, step.at, step.n, got, step.wait)
		}
	}
}

const ms = time.Millisecond

func burstyCore(t *testing.T, r Rate, burst int64) *bucket {
	t.Helper()
	b, err := BurstyOptions{Rate: r, MaxBurst: burst}.bucket()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBurstySteps(t *testing.T) {
	for _, c := range []struct {
		name  string
		rate  Rate
		burst int64
		steps []step
	}{
		{"the next caller pays", PerSecond(5), 0, []step{
			{0, 1, 0}, {0, 1, 200 * ms}, {0, 1, 400 * ms},
		}},
		{"a large first request passes at once and the next one waits for all of it", PerSecond(5), 0, []step{
			{0, 100, 0}, {0, 1, 20 * time.Second}, {0, 1, 20*time.Second + 200*ms},
		}},
		{"a wait counts from when it is asked for", PerSecond(5), 0, []step{
			{0, 1, 0}, {150 * ms, 1, 50 * ms}, {390 * ms, 1, 10 * ms}, {600 * ms, 1, 0},
		}},
		{"idle time is saved and free", PerSecond(5), 0, []step{
			// 0.8 s idle before 1 s save four; the fifth is fresh, for the sixth to pay.
			{0, 1, 0},
			{time.Second, 1, 0},
			{time.Second, 1, 0},
			{time.Second, 1, 0},
			{time.Second, 1, 0},
			{time.Second, 1, 0},
			{time.Second, 1, 200 * ms},
		}},
		{"no more than a second's worth is saved by default", PerSecond(5), 0, []step{
			{time.Hour, 5, 0}, {time.Hour, 1, 0}, {time.Hour, 1, 200 * ms},
		}},
		{"a second's worth may be a fraction of a permit", Rate{1, time.Minute}, 0, []step{
			{time.Hour, 1, 0}, {time.Hour, 1, 59 * time.Second},
		}},
		{"a burst in permits", PerSecond(5), 20, []step{
			{time.Hour, 20, 0}, {time.Hour, 1, 0}, {time.Hour, 1, 200 * ms},
		}},
		{"part of a request comes out of what is saved", PerSecond(5), 20, []step{
			{time.Hour, 23, 0}, {time.Hour, 1, 600 * ms},
		}},
		{"no burst", PerSecond(5), NoBurst, []step{
			{time.Hour, 1, 0}, {time.Hour, 1, 200 * ms}, {2 * time.Hour, 1, 0}, {2 * time.Hour, 1, 200 * ms},
		}},
		{"waits round up to the nanosecond, and the rest is not lost", PerSecond(3), NoBurst, []step{
			{0, 1, 0}, {0, 1, 333_333_334}, {0, 1, 666_666_667}, {0, 1, 1_000_000_000},
		}},
		{"a clock that steps back adds nothing", PerSecond(5), 1, []step{
			{time.Second, 1, 0},
			{time.Second, 1, 0},
			{time.Second, 1, 200 * ms},
			{0, 1, 1400 * ms},
			{time.Second, 1, 600 * ms},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			playSteps(t, burstyCore(t, c.rate, c.burst), state{}, c.steps)
		})
	}
}

func TestTokenQueueSteps(t *testing.T) {
	full := newBucket(PerSecond(5))
	full.prepaid, full.maxSaved = true, full.timeFor(10)
	for _, c := range []struct {
		name  string
		start state
		steps []step
	}{
		{"an empty queue makes its first token in one interval", state{}, []step{
			{0, 1, 200 * ms}, {200 * ms, 1, 200 * ms},
		}},
		{"a request waits for all of its own tokens", state{}, []step{
			{0, 10, 2 * time.Second}, {2 * time.Second, 1, 200 * ms},
		}},
		{"a full queue serves its capacity, and not one more", state{saved: full.maxSaved}, []step{
			{0, 10, 0}, {0, 1, 200 * ms},
		}},
		{"nothing is made while the queue is full", state{saved: full.maxSaved}, []step{
			{time.Hour + 199*ms, 10, 0}, {time.Hour + 199*ms, 1, 200 * ms},
		}},
		{"a producer that sleeps through many intervals loses none", state{}, []step{
			{1999 * ms, 9, 0}, {1999 * ms, 1, 1 * ms},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { playSteps(t, &full, c.start, c.steps) })
	}
}

// A caller who asks for the next permit as soon as it has one gets the k-th exactly k intervals after the first,
// rounded up to the nanosecond, however large k is.
func TestTenMillionPermitsDoNotDrift(t *testing.T) {
	const count = 10_000_000
	for _, c := range []struct {
		name  string
		rate  Rate
		burst int64
	}{
		{"300 per second", PerSecond(300), 0},
		{"7 per second without bursts", PerSecond(7), NoBurst},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := burstyCore(t, c.rate, c.burst)
			var s state
			var now int64
			for k := range int64(count) {
				s, now = b.take(s, now, 1)
				if k&0xffff == 0 || k == count-1 {
					if want := ceilDiv(k, int64(c.rate.Per), c.rate.Permits); now != want {
						t.Fatalf("permit %d is granted at %d ns, want %d", k, now, want)
					}
				}
			}
		})
	}
}

// ceilDiv returns a·b/c rounded up; a·b must fit.
func ceilDiv(a, b, c int64) int64 { return (a*b + c - 1) / c }

// traffic plays random requests and returns when and how many were granted.
func traffic(t *testing.T, sched schedule, s state, r Rate, most int64, seed uint64) (grants, counts []int64) {
	t.Helper()
	rng := seeded(t, seed)
	interval := int64(r.Per) / r.Permits
	var now int64
	for range 1000 {
		switch rng.IntN(4) {
		case 0: // at the same instant
		case 1:
			now += rng.Int64N(1 + interval)
		case 2:
			now += rng.Int64N(1 + 3*interval)
		case 3:
			now += rng.Int64N(1 + 40*interval)
		}
		n := 1 + rng.Int64N(1+rng.Int64N(most))
		var grant int64
		s, grant = sched.take(s, now, n)
		grants, counts = append(grants, grant), append(counts, n)
		if rng.IntN(3) > 0 {
			now = max(now, grant)
		}
	}
	return grants, counts
}

// checkEnvelope checks for every window, from one grant to another, that the permits in it are at most
// saved + rate·(its length), where the last caller's own count only if prepaid. Lengths are good to 1 ns.
func checkEnvelope(t *testing.T, b *bucket, grants, counts []int64) {
	t.Helper()
	for i := range grants {
		var sum int64
		for j := i; j < len(grants); j++ {
			if j > i && grants[j] < grants[j-1] {
				t.Fatalf("request %d is granted at %d, before request %d at %d", j, grants[j], j-1, grants[j-1])
			}
			switch {
			case b.prepaid:
				sum += counts[j]
			case j > i:
				sum += counts[j-1]
			}
			length := grants[j] - grants[i]
			most := b.maxSaved.plus(span{ns: length + 1}, b.denominator)
			if took := b.timeFor(sum); most.less(took) {
				t.Fatalf("requests %d to %d: %d permits in %d ns; they take %+v, want at most %+v", i, j, sum, length, took, most)
			}
		}
	}
}

func TestNoWindowHasMoreThanBurstAndRate(t *testing.T) {
	for _, r := range []Rate{PerSecond(5), PerSecond(300), PerSecond(7), {1000, time.Hour}, {3, 7}} {
		for _, burst := range []int64{0, NoBurst, 1, 10} {
			t.Run("Bursty "+r.String()+" burst "+decimal(burst), func(t *testing.T) {
				b := burstyCore(t, r, burst)
				grants, counts := traffic(t, b, state{}, r, 15, 11)
				checkEnvelope(t, b, grants, counts)
			})
		}
		t.Run("TokenQueue "+r.String(), func(t *testing.T) {
			b := newBucket(r)
			b.prepaid, b.maxSaved = true, b.timeFor(15)
			grants, counts := traffic(t, &b, state{saved: b.maxSaved}, r, 15, 12)
			checkEnvelope(t, &b, grants, counts)
		})
	}
}

func TestPermitsInAnIdleTime(t *testing.T) {
	b := newBucket(PerSecond(3))
	for _, c := range []struct {
		n    int64
		less uint64 // parts of a nanosecond
		want int64
	}{{0, 0, 0}, {1, 0, 1}, {1, 1, 0}, {3, 0, 3}, {1_000_000, 1, 999_999}} {
		s := b.timeFor(c.n).minus(span{frac: c.less}, b.denominator)
		if got := b.permitsIn(s); got != c.want {
			t.Errorf("the time of %d permits less %d/3 ns is worth %d, want %d", c.n, c.less, got, c.want)
		}
	}
}
