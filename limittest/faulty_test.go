package limittest

import (
	"context"
	"time"

	"github.com/headgate/headgate"
)

// A faulty limiter is right but for the methods that are set.
type faulty struct {
	headgate.Limiter
	take    func(context.Context, headgate.Check) (headgate.Decision, error)
	takeAll func(context.Context, []headgate.Check, []headgate.Decision) ([]headgate.Decision, error)
	charge  func(context.Context, headgate.Check) (headgate.Decision, error)
	give    func(context.Context, headgate.Check, headgate.Receipt) error
	renew   func(context.Context, headgate.Check, headgate.Receipt) (bool, error)
	reset   func(context.Context, headgate.Check) error
	peek    func(context.Context, headgate.Check) (headgate.Decision, error)
}

func (f *faulty) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if f.take != nil {
		return f.take(ctx, c)
	}
	return f.Limiter.Take(ctx, c)
}

func (f *faulty) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if f.peek != nil {
		return f.peek(ctx, c)
	}
	return f.Limiter.Peek(ctx, c)
}

func (f *faulty) TakeAll(ctx context.Context, cs []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	if f.takeAll != nil {
		return f.takeAll(ctx, cs, dst)
	}
	return f.Limiter.TakeAll(ctx, cs, dst)
}

func (f *faulty) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if f.charge != nil {
		return f.charge(ctx, c)
	}
	return f.Limiter.Charge(ctx, c)
}

func (f *faulty) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	if f.give != nil {
		return f.give(ctx, c, r)
	}
	return f.Limiter.Give(ctx, c, r)
}

func (f *faulty) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	if f.renew != nil {
		return f.renew(ctx, c, r)
	}
	return f.Limiter.Renew(ctx, c, r)
}

func (f *faulty) Reset(ctx context.Context, c headgate.Check) error {
	if f.reset != nil {
		return f.reset(ctx, c)
	}
	return f.Limiter.Reset(ctx, c)
}

// decidedBy returns a fault that changes what Take decides.
func decidedBy(change func(c headgate.Check, d *headgate.Decision)) func(*faulty, func() time.Time) {
	return func(f *faulty, _ func() time.Time) {
		changed := func(decide decider) decider {
			return func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
				d, err := decide(ctx, c)
				if err == nil {
					change(c, &d)
				}
				return d, err
			}
		}
		f.take, f.peek = changed(f.Limiter.Take), changed(f.Limiter.Peek)
	}
}

// limitedBy returns a fault that counts by another limit.
func limitedBy(change func(l headgate.Limit) headgate.Limit) func(*faulty, func() time.Time) {
	return func(f *faulty, _ func() time.Time) {
		changed := func(decide decider) decider {
			return func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
				if c.Limit.Validate() == nil {
					c.Limit = change(c.Limit)
				}
				return decide(ctx, c)
			}
		}
		f.take, f.peek = changed(f.Limiter.Take), changed(f.Limiter.Peek)
	}
}

// A decider is Take or Peek.
type decider = func(context.Context, headgate.Check) (headgate.Decision, error)

// limitedLook returns a fault that takes n units when it is asked to look.
func limitedLook(n int64) func(*faulty, func() time.Time) {
	return func(f *faulty, _ func() time.Time) {
		f.peek = func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
			d, err := f.Limiter.Peek(ctx, c)
			c.Cost = n
			_, _ = f.Limiter.Take(ctx, c)
			return d, err
		}
	}
}

// limitedBadly returns a fault that makes a limit valid instead of refusing it.
func limitedBadly() func(*faulty, func() time.Time) {
	return func(f *faulty, _ func() time.Time) {
		f.take = func(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
			if c.Limit.Validate() != nil {
				c.Limit = headgate.PerSecond(10)
			}
			return f.Limiter.Take(ctx, c)
		}
	}
}
