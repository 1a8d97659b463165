package limittest

import (
	"context"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
)

// faults are mistakes that limiters are known for, each with the checks that must find it.
var faults = []struct {
	name   string
	break_ func(f *faulty, now func() time.Time)
	caught []string
}{
	{"compares with > where >= is right", func(f *faulty, _ func() time.Time) {
		var one sync.Mutex // no other goroutine may take between the look and the take
		f.take = func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
			one.Lock()
			defer one.Unlock()
			look := c
			look.Cost = 0
			if d, err := f.Limiter.Peek(ctx, look); err == nil && c.Cost > 0 && c.Cost == d.Remaining {
				d.Allowed, d.RetryAfter = false, time.Microsecond
				return d, nil
			}
			return f.Limiter.Take(ctx, c)
		}
	}, []string{
		"cases/tokenbucket/a bucket of 10", "cases/gcra/a burst of 10", "cases/leakybucket/a bucket of 10",
		"cases/fixedwindow/a window of 10", "cases/slidinglog/a log of 10", "cases/slidingwindow/a window of 10",
		"cases/slidingbuckets/a window of 10", "cases/concurrency/all ten", "predictions/remaining", "concurrent/takes all", "offered load/",
	}},
	{"counts what it denied", func(f *faulty, _ func() time.Time) {
		f.take = func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
			d, err := f.Limiter.Take(ctx, c)
			if err == nil && !d.Allowed && c.Cost > 0 && c.Limit.Algorithm != headgate.Concurrency {
				c.Cost = 1
				_, err = f.Limiter.Charge(ctx, c)
			}
			return d, err
		}
	}, []string{
		"cases/slidinglog/denied requests", "cases/slidingbuckets/denied requests", "cases/tokenbucket/a denial",
		"no effect/peeks and denials", "predictions/retry", "no effect/never",
	}},
	{"divides 1000 ms by the rate", limitedBy(func(l headgate.Limit) headgate.Limit {
		if isBucket(l) && l.Period == time.Second && l.Count <= 1000 {
			l.Burst = l.Capacity()
			l.Count, l.Period = 1, time.Duration(1000/l.Count)*time.Millisecond
		}
		return l
	}), []string{
		"cases/tokenbucket/300 a second", "cases/gcra/300 a second", "cases/leakybucket/300 a second",
		"bound/clock runs/300 per s", "bound/clock runs/7 per s burst 3",
	}},
	{"takes the period for whole seconds", limitedBy(func(l headgate.Limit) headgate.Limit {
		if l.Period > time.Second {
			l.Period = l.Period.Truncate(time.Minute) + time.Second
		}
		return l
	}), []string{"cases/fixedwindow/windows that are no whole number of seconds", "cases/slidinglog/units"}},
	{"refills again when the clock comes back", func(f *faulty, now func() time.Time) {
		var mu sync.Mutex
		tokens, last := math.Inf(1), now()
		f.take = func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
			if !isBucket(c.Limit) || c.Limit.Validate() != nil || c.Limit.Count > 1e6 {
				return f.Limiter.Take(ctx, c)
			}
			mu.Lock()
			defer mu.Unlock()
			rate := float64(c.Limit.Count) / c.Limit.Period.Seconds()
			t := now()
			tokens = min(float64(c.Limit.Capacity()), tokens+max(0, t.Sub(last).Seconds())*rate)
			last = t
			d := headgate.Decision{Limit: c.Limit.Capacity()}
			if d.Allowed = tokens >= float64(c.Cost); d.Allowed {
				tokens -= float64(c.Cost)
				d.Receipt.Units = c.Cost
			} else {
				d.RetryAfter = time.Duration((float64(c.Cost) - tokens) / rate * float64(time.Second))
			}
			d.Remaining = int64(tokens)
			return d, nil
		}
	}, []string{
		"cases/tokenbucket/a clock", "bound/clock steps back/10 per s", "bound/clock jumps/10 per s burst 20",
		"predictions/retry is exact/7 per s",
	}},
	{"takes one after the other", func(f *faulty, _ func() time.Time) {
		f.takeAll = func(ctx context.Context, cs []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
			for _, c := range cs {
				d, err := f.Limiter.Take(ctx, c)
				if err != nil {
					return dst, err
				}
				dst = append(dst, d)
			}
			return dst, nil
		}
	}, []string{
		"cases/tokenbucket/take all", "takeall/all or none", "takeall/of MaxChecks", "concurrent/takes several", "input/lists",
		"input/limits",
	}},
	{"returns decisions in another order", func(f *faulty, _ func() time.Time) {
		f.takeAll = func(ctx context.Context, cs []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
			ds, err := f.Limiter.TakeAll(ctx, cs, nil)
			for i := range ds {
				dst = append(dst, ds[len(ds)-1-i])
			}
			return dst, err
		}
	}, []string{"takeall/all or none"}},
	{"looks before it takes", func(f *faulty, _ func() time.Time) {
		f.take = func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
			look := c
			look.Cost = 0
			d, err := f.Limiter.Peek(ctx, look)
			if err != nil || c.Cost == 0 || d.Remaining < c.Cost || c.Limit.Algorithm == headgate.Concurrency {
				return f.Limiter.Take(ctx, c)
			}
			for range 3 {
				runtime.Gosched()
			}
			d, err = f.Limiter.Charge(ctx, c)
			d.Allowed = true
			return d, err
		}
	}, []string{"concurrent/takes all units/100 per s"}},
	{"gives back what has drained", func(f *faulty, now func() time.Time) {
		f.give = func(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
			r.At = now().UnixMicro()
			return f.Limiter.Give(ctx, c, r)
		}
	}, []string{
		"cases/tokenbucket/a late refund", "cases/tokenbucket/a refund returns only", "refund/keeps the bound/10 per s",
		"refund/too late", "refund/never raises Remaining/10 per s",
	}},
	{"gives back more than was taken", func(f *faulty, _ func() time.Time) {
		f.give = func(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
			if err := f.Limiter.Give(ctx, c, r); err != nil {
				return err
			}
			return f.Limiter.Reset(ctx, c)
		}
	}, []string{
		"refund/keeps the bound/10 per s", "refund/keeps the bound/20 per s sliding-log", "refund/at once", "refund/never raises Remaining",
		"concurrent/takes and gives",
	}},
	{"gives nothing back", func(f *faulty, _ func() time.Time) {
		f.give = func(context.Context, headgate.Check, headgate.Receipt) error { return nil }
	}, []string{"cases/concurrency/places", "bound/in flight", "refund/at once", "input/refunds"}},
	{"renews nothing", func(f *faulty, _ func() time.Time) {
		f.renew = func(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
			return true, nil
		}
	}, []string{"cases/concurrency/a slot that is renewed", "renew/keeps held slots", "renew/of other algorithms", "input/contexts"}},
	{"renews beyond the limit", func(f *faulty, _ func() time.Time) {
		f.renew = func(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
			if c.Limit.Algorithm == headgate.Concurrency {
				c.Limit.Count = max(c.Limit.Count, headgate.MaxLogCount)
			}
			return f.Limiter.Renew(ctx, c, r)
		}
	}, []string{"cases/concurrency/renewing an expired slot", "renew/keeps held slots"}},
	{"rounds retry up to a millisecond", decidedBy(func(_ headgate.Check, d *headgate.Decision) {
		if d.RetryAfter != headgate.Never {
			d.RetryAfter = (d.RetryAfter + time.Millisecond - 1).Truncate(time.Millisecond)
		}
	}), []string{"predictions/retry is exact/7 per s", "predictions/retry is exact/300 per s"}},
	{"is early by a microsecond", decidedBy(func(_ headgate.Check, d *headgate.Decision) {
		if d.RetryAfter > time.Microsecond && d.RetryAfter != headgate.Never {
			d.RetryAfter -= time.Microsecond
		}
	}), []string{"predictions/retry", "cases/fixedwindow/at most"}},
	{"does not subtract the cost", decidedBy(func(c headgate.Check, d *headgate.Decision) {
		if d.Allowed {
			d.Remaining += c.Cost
		}
	}), []string{"cases/tokenbucket/the worked example", "predictions/remaining"}},
	{"resets after a period", decidedBy(func(c headgate.Check, d *headgate.Decision) {
		if d.ResetAfter > 0 {
			d.ResetAfter = c.Limit.Period
		}
	}), []string{"predictions/reset"}},
	{
		"has no delay", decidedBy(func(_ headgate.Check, d *headgate.Decision) { d.Delay = 0 }),
		[]string{"cases/leakybucket/delays", "offered load/20 a second/20 per s leaky-bucket"},
	},
	{
		"has a receipt for nothing", decidedBy(func(c headgate.Check, d *headgate.Decision) { d.Receipt.Units = c.Cost }),
		[]string{"cases/tokenbucket/a bucket of 10", "predictions/"},
	},
	{"takes when it looks", limitedLook(1), []string{"no effect/peeks and denials", "cases/tokenbucket/a peek"}},
	{"throttles by one twentieth", limitedBy(func(l headgate.Limit) headgate.Limit {
		if l.Count >= 20 && l.Burst == 0 {
			l.Count -= l.Count / 20
		}
		return l
	}), []string{"offered load/"}},
	{"starts over when the limit changes", func(f *faulty, _ func() time.Time) {
		changed := func(decide decider) decider {
			return func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
				if c.ValidatePeek() == nil && len(c.Key) < 1000 {
					c.Key += c.Limit.String()
				}
				return decide(ctx, c)
			}
		}
		f.take, f.peek = changed(f.Limiter.Take), changed(f.Limiter.Peek)
	}, []string{"change/raised", "change/any time", "cases/tokenbucket/a lowered"}},
	{"has debts without end", func(f *faulty, _ func() time.Time) {
		f.charge = func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
			deep := c
			if deep.Limit.Burst = 50 * c.Limit.Capacity(); deep.Limit.Validate() != nil {
				return f.Limiter.Charge(ctx, c)
			}
			d, err := f.Limiter.Charge(ctx, deep)
			if err != nil {
				return d, err
			}
			c.Cost = 0
			look, err := f.Limiter.Peek(ctx, c)
			look.Receipt, look.RetryAfter = d.Receipt, 0
			return look, err
		}
	}, []string{"change/charged/10 per s", "cases/tokenbucket/a debt is cut"}},
	{"charges what it should refuse", func(f *faulty, _ func() time.Time) {
		f.charge = func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
			if c.Limit.Algorithm == headgate.Concurrency {
				return f.Limiter.Take(ctx, c)
			}
			return f.Limiter.Charge(ctx, c)
		}
	}, []string{"input/charge", "cases/concurrency/there is no debt"}},
	{"does not reset", func(f *faulty, _ func() time.Time) {
		f.reset = func(context.Context, headgate.Check) error { return nil }
	}, []string{"change/reset", "cases/tokenbucket/a reset", "cases/concurrency/a reset"}},
	{"mixes up keys", func(f *faulty, _ func() time.Time) {
		f.take = func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
			if len(c.Key) > 4 {
				c.Key = c.Key[:4]
			}
			return f.Limiter.Take(ctx, c)
		}
	}, []string{"no effect/keys", "input/keys"}},
	{"takes any key", func(f *faulty, _ func() time.Time) {
		f.take = func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
			if c.Key == "" {
				c.Key = "nobody"
			}
			return f.Limiter.Take(ctx, c)
		}
	}, []string{"input/keys"}},
	{"corrects a cost below zero", func(f *faulty, _ func() time.Time) {
		f.take = func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
			c.Cost = max(1, c.Cost)
			return f.Limiter.Take(ctx, c)
		}
	}, []string{"input/costs"}},
	{"corrects an invalid limit", limitedBadly(), []string{"input/limits"}},
	{"ignores the context", func(f *faulty, _ func() time.Time) {
		f.take = func(_ context.Context, c headgate.Check) (headgate.Decision, error) {
			return f.Limiter.Take(context.Background(), c)
		}
	}, []string{"input/contexts"}},
	{"never expires slots", limitedBy(func(l headgate.Limit) headgate.Limit {
		if l.Algorithm == headgate.Concurrency {
			l.TTL = headgate.MaxPeriod
		}
		return l
	}), []string{"bound/in flight", "cases/concurrency/a holder that dies"}},
	{"forgets an idle key too soon", func(f *faulty, now func() time.Time) {
		var mu sync.Mutex
		last := make(map[string]time.Time)
		f.take = func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
			mu.Lock()
			if t, seen := last[c.Key]; seen && now().Sub(t) > restoreTime(c.Limit)/2 {
				_ = f.Limiter.Reset(context.Background(), c)
			}
			last[c.Key] = now()
			mu.Unlock()
			return f.Limiter.Take(ctx, c)
		}
	}, []string{
		"bound/clock runs/10 per s burst 20", "bound/clock runs/7 per m fixed-window", "bound/clock runs/7 per m sliding-log",
		"bound/clock runs/7 per m sliding-buckets 60", "bound/in flight", "predictions/",
	}},
}

// TestSuiteCatchesFaults proves that the suite can fail: that each fault fails each of the checks it is listed with.
func TestSuiteCatchesFaults(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			broken := func(_ testing.TB, now func() time.Time) headgate.Limiter {
				f := &faulty{Limiter: stepstore.New(now)}
				fault.break_(f, now)
				return f
			}
			for _, prefix := range fault.caught {
				failures := failuresOf(t, prefix, broken, Options{Steps: 300, Goroutines: 200})
				if len(failures) == 0 {
					t.Errorf("%s does not catch it", prefix)
				}
			}
		})
	}
}
