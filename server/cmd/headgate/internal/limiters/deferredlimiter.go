package limiters

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet/async"
)

// A closer is a limiter whose Close has a deadline.
type closer interface {
	headgate.Limiter
	Close(ctx context.Context) error
}

// A deferredLimiter is a limiter that is created once its store responds. Until then, the fallback decides.
type deferredLimiter[L closer] struct {
	fallback headgate.Limiter
	limiter  atomic.Pointer[L]

	cancel context.CancelFunc
	done   chan struct{}
}

func newDeferredLimiter[L closer](fallback headgate.Limiter) *deferredLimiter[L] {
	return &deferredLimiter[L]{fallback: fallback, cancel: func() {}}
}

// The timeout of one attempt to create the limiter, and the time between attempts.
const (
	createTimeout = time.Second
	createRetry   = time.Second
)

// open creates the limiter. If the store is unreachable, open returns nil, and a goroutine tries again until the store
// responds. Other errors are returned.
func (d *deferredLimiter[L]) open(
	ctx context.Context, create func(context.Context) (L, error), log *slog.Logger,
) error {
	err := d.try(ctx, create)
	if err == nil {
		return nil
	}
	if !isTemporary(err) {
		return err
	}
	log.Warn("store unreachable, counting on this node only until it responds", "err", err.Error())
	retryCtx, cancel := context.WithCancel(context.Background())
	d.cancel, d.done = cancel, make(chan struct{})
	go func() {
		defer close(d.done)
		d.retry(retryCtx, create, log)
	}()
	return nil
}

// retry tries to create the limiter until it succeeds or ctx ends. It logs each permanent error once.
func (d *deferredLimiter[L]) retry(ctx context.Context, create func(context.Context) (L, error), log *slog.Logger) {
	tick := time.NewTicker(createRetry)
	defer tick.Stop()
	logged := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := d.try(ctx, create)
		if err == nil {
			log.Info("store reachable, sharing limits with other nodes")
			return
		}
		if text := err.Error(); ctx.Err() == nil && !isTemporary(err) && text != logged {
			log.Warn("store reachable but not usable, counting on this node only", "err", text)
			logged = text
		}
	}
}

// isTemporary reports whether a later attempt may succeed.
func isTemporary(err error) bool {
	return errors.Is(err, redisstore.ErrUnreachable) || errors.Is(err, redisstore.ErrNoResponse) ||
		errors.Is(err, context.DeadlineExceeded)
}

func (d *deferredLimiter[L]) try(ctx context.Context, create func(context.Context) (L, error)) error {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	limiter, err := create(ctx)
	if err == nil {
		d.limiter.Store(&limiter)
	}
	return err
}

// get returns the limiter, if it has been created.
func (d *deferredLimiter[L]) get() (limiter L, ok bool) {
	if p := d.limiter.Load(); p != nil {
		return *p, true
	}
	return limiter, false
}

func (d *deferredLimiter[L]) close(ctx context.Context) error {
	d.cancel()
	if d.done != nil {
		<-d.done
	}
	if limiter, ok := d.get(); ok {
		return limiter.Close(ctx)
	}
	return nil
}

// active returns the limiter that decides now.
func (d *deferredLimiter[L]) active() headgate.Limiter {
	if p := d.limiter.Load(); p != nil {
		return *p
	}
	return d.fallback
}

func (d *deferredLimiter[L]) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return d.active().Take(ctx, c)
}

func (d *deferredLimiter[L]) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return d.active().Peek(ctx, c)
}

func (d *deferredLimiter[L]) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	return d.active().TakeAll(ctx, checks, dst)
}

func (d *deferredLimiter[L]) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return d.active().Charge(ctx, c)
}

func (d *deferredLimiter[L]) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	return d.active().Give(ctx, c, r)
}

func (d *deferredLimiter[L]) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	return d.active().Renew(ctx, c, r)
}

func (d *deferredLimiter[L]) Reset(ctx context.Context, c headgate.Check) error {
	return d.active().Reset(ctx, c)
}

// A borrowingLimiter is a deferredLimiter that keeps no strings of a check after a call, because neither L nor the
// fallback does.
type borrowingLimiter[L closer] struct{ *deferredLimiter[L] }

var _ engine.Borrower = borrowingLimiter[*async.Limiter]{}

// BorrowsKeys implements engine.Borrower.
func (borrowingLimiter[L]) BorrowsKeys() {}
