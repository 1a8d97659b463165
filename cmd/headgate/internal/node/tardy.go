package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/fleet/async"
	"github.com/headgate/headgate/redisstore"
)

// A closer is a limiter that is closed with a deadline.
type closer interface {
	headgate.Limiter
	Close(ctx context.Context) error
}

// A tardy limiter is one that cannot be made before a server answers. Until then another decides.
type tardy[L closer] struct {
	meanwhile headgate.Limiter
	made      atomic.Pointer[L]

	cancel context.CancelFunc
	ended  chan struct{}
}

func newTardy[L closer](meanwhile headgate.Limiter) *tardy[L] {
	return &tardy[L]{meanwhile: meanwhile, cancel: func() {}}
}

// How long making it may take, and how often it is tried.
const (
	tardyTimeout = time.Second
	tardyEvery   = time.Second
)

// open makes the limiter now or, if the server is away, as soon as it can. What waiting does not cure is an error.
func (t *tardy[L]) open(ctx context.Context, create func(context.Context) (L, error), log *slog.Logger) error {
	err := t.try(ctx, create)
	if err == nil {
		return nil
	}
	if !waits(err) {
		return err
	}
	log.Warn("the store is away: until it answers, this node counts by itself", "err", err.Error())
	life, cancel := context.WithCancel(context.Background())
	t.cancel, t.ended = cancel, make(chan struct{})
	go func() {
		defer close(t.ended)
		tick := time.NewTicker(tardyEvery)
		defer tick.Stop()
		for {
			select {
			case <-life.Done():
				return
			case <-tick.C:
			}
			now := t.try(life, create)
			if now == nil {
				log.Info("the store answers: nodes tell each other what they took")
				return
			}
			if life.Err() == nil && !waits(now) && now.Error() != err.Error() { // it is there, and something else is wrong
				log.Warn("the store answers, and cannot be used: this node counts by itself", "err", now.Error())
				err = now
			}
		}
	}()
	return nil
}

// waits reports whether an error is one that waiting may cure.
func waits(err error) bool {
	return errors.Is(err, redisstore.ErrUnreachable) || errors.Is(err, redisstore.ErrNoResponse) || errors.Is(err, context.DeadlineExceeded)
}

func (t *tardy[L]) try(ctx context.Context, create func(context.Context) (L, error)) error {
	ctx, cancel := context.WithTimeout(ctx, tardyTimeout)
	defer cancel()
	made, err := create(ctx)
	if err == nil {
		t.made.Store(&made)
	}
	return err
}

// get returns the limiter, if it is made.
func (t *tardy[L]) get() (made L, ok bool) {
	if p := t.made.Load(); p != nil {
		return *p, true
	}
	return made, false
}

func (t *tardy[L]) close(ctx context.Context) error {
	t.cancel()
	if t.ended != nil {
		<-t.ended
	}
	if made, ok := t.get(); ok {
		return made.Close(ctx)
	}
	return nil
}

// now returns who decides.
func (t *tardy[L]) now() headgate.Limiter {
	if p := t.made.Load(); p != nil {
		return *p
	}
	return t.meanwhile
}

func (t *tardy[L]) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return t.now().Take(ctx, c)
}

func (t *tardy[L]) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	return t.now().TakeAll(ctx, checks, dst)
}

func (t *tardy[L]) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return t.now().Charge(ctx, c)
}

func (t *tardy[L]) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	return t.now().Give(ctx, c, r)
}

func (t *tardy[L]) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	return t.now().Renew(ctx, c, r)
}

func (t *tardy[L]) Reset(ctx context.Context, c headgate.Check) error { return t.now().Reset(ctx, c) }

// A borrower is one of which both that decide keep no string of a check.
type borrower[L closer] struct{ *tardy[L] }

var _ engine.Borrower = borrower[*async.Limiter]{}

// BorrowsKeys promises that strings are read only until a call returns.
func (borrower[L]) BorrowsKeys() {}
