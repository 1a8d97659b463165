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

// A lazyLimiter is a limiter that is created when its store responds. Until then, the fallback decides.
type lazyLimiter[L closer] struct {
	fallback headgate.Limiter
	limiter  atomic.Pointer[L]

	cancel context.CancelFunc
	done   chan struct{}
}

func newLazyLimiter[L closer](fallback headgate.Limiter) *lazyLimiter[L] {
	return &lazyLimiter[L]{fallback: fallback, cancel: func() {}}
}

// The timeout of one attempt to create the limiter, and the time between attempts.
const (
	createTimeout = time.Second
	createRetry   = time.Second
)

// open creates the limiter. If the store is unreachable, open returns nil, and starts a goroutine that tries again
// until the store responds. open returns other errors.
func (l *lazyLimiter[L]) open(
	ctx context.Context, create func(context.Context) (L, error), log *slog.Logger,
) error {
	err := l.try(ctx, create)
	if err == nil {
		return nil
	}
	if !isTemporary(err) {
		return err
	}
	log.Warn("store unreachable, counting on this node only until it responds", "err", err.Error())
	retryCtx, cancel := context.WithCancel(context.Background())
	l.cancel, l.done = cancel, make(chan struct{})
	go func() {
		defer close(l.done)
		l.retry(retryCtx, create, log)
	}()
	return nil
}

// retry tries to create the limiter until it succeeds or ctx ends. It logs each permanent error once.
func (l *lazyLimiter[L]) retry(ctx context.Context, create func(context.Context) (L, error), log *slog.Logger) {
	tick := time.NewTicker(createRetry)
	defer tick.Stop()
	logged := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := l.try(ctx, create)
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

func (l *lazyLimiter[L]) try(ctx context.Context, create func(context.Context) (L, error)) error {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	limiter, err := create(ctx)
	if err == nil {
		l.limiter.Store(&limiter)
	}
	return err
}

// get returns the limiter, if it has been created.
func (l *lazyLimiter[L]) get() (limiter L, ok bool) {
	if p := l.limiter.Load(); p != nil {
		return *p, true
	}
	return limiter, false
}

func (l *lazyLimiter[L]) close(ctx context.Context) error {
	l.cancel()
	if l.done != nil {
		<-l.done
	}
	if limiter, ok := l.get(); ok {
		return limiter.Close(ctx)
	}
	return nil
}

// active returns the limiter that decides now.
func (l *lazyLimiter[L]) active() headgate.Limiter {
	if p := l.limiter.Load(); p != nil {
		return *p
	}
	return l.fallback
}

func (l *lazyLimiter[L]) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return l.active().Take(ctx, c)
}

func (l *lazyLimiter[L]) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return l.active().Peek(ctx, c)
}

func (l *lazyLimiter[L]) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	return l.active().TakeAll(ctx, checks, dst)
}

func (l *lazyLimiter[L]) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return l.active().Charge(ctx, c)
}

func (l *lazyLimiter[L]) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	return l.active().Give(ctx, c, r)
}

func (l *lazyLimiter[L]) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	return l.active().Renew(ctx, c, r)
}

func (l *lazyLimiter[L]) Reset(ctx context.Context, c headgate.Check) error {
	return l.active().Reset(ctx, c)
}

// A borrowingLimiter is a lazyLimiter that does not keep the strings of a check after a call. Neither L nor the
// fallback keeps them.
type borrowingLimiter[L closer] struct{ *lazyLimiter[L] }

var _ engine.Borrower = borrowingLimiter[*async.Limiter]{}

// BorrowsKeys implements engine.Borrower.
func (borrowingLimiter[L]) BorrowsKeys() {}
