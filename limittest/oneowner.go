package limittest

import (
	"context"

	"github.com/headgate/headgate"
)

// oneOwner wraps a limiter and gives all keys the same owner. A limiter on several servers keeps the keys of an owner
// on one server, so that TakeAll decides them in one step.
type oneOwner struct{ headgate.Limiter }

const owner = "limittest"

func (o oneOwner) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	c.Owner = owner
	return o.Limiter.Take(ctx, c)
}

func (o oneOwner) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	c.Owner = owner
	return o.Limiter.Peek(ctx, c)
}

func (o oneOwner) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	owned := make([]headgate.Check, len(checks))
	for i, c := range checks {
		c.Owner = owner
		owned[i] = c
	}
	return o.Limiter.TakeAll(ctx, owned, dst)
}

func (o oneOwner) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	c.Owner = owner
	return o.Limiter.Charge(ctx, c)
}

func (o oneOwner) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	c.Owner = owner
	return o.Limiter.Give(ctx, c, r)
}

func (o oneOwner) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	c.Owner = owner
	return o.Limiter.Renew(ctx, c, r)
}

func (o oneOwner) Reset(ctx context.Context, c headgate.Check) error {
	c.Owner = owner
	return o.Limiter.Reset(ctx, c)
}
