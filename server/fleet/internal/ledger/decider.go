package ledger

import (
	"context"

	"github.com/headgate/headgate"
)

// A Decider is the part of a Ledger that decides. Limiters embed it.
type Decider struct{ ledger *Ledger }

// Decider returns the part of the ledger that decides.
func (l *Ledger) Decider() Decider { return Decider{l} }

// Take decides one check. See [headgate.Limiter]. Remaining and RetryAfter are estimates, as peers consume too.
func (b Decider) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return b.ledger.Take(ctx, c)
}

// Peek returns the decision that Take would return now. See [headgate.Limiter].
func (b Decider) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return b.ledger.Peek(ctx, c)
}

// TakeAll decides several checks as one. See [headgate.Limiter].
func (b Decider) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	return b.ledger.TakeAll(ctx, checks, dst)
}

// Charge takes the cost regardless of the limit. See [headgate.Limiter].
func (b Decider) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return b.ledger.Charge(ctx, c)
}

// Renew gives the slot of a concurrency limit another TTL. See [Ledger.Renew].
func (b Decider) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	return b.ledger.Renew(ctx, c, r)
}

// Give returns units that were taken. See [Ledger.Give].
func (b Decider) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	return b.ledger.Give(ctx, c, r)
}

// Reset forgets consumption, on all nodes as soon as they receive it. See [headgate.Limiter].
func (b Decider) Reset(ctx context.Context, c headgate.Check) error { return b.ledger.Reset(ctx, c) }

// BorrowsKeys promises that the strings of a check are read only until the call returns, and owners not at all.
func (b Decider) BorrowsKeys() {}
