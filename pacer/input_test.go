package pacer

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestConstructorsRefuseBadOptions(t *testing.T) {
	bursty := func(o BurstyOptions) error { _, err := NewBursty(o); return err }
	warming := func(o WarmingUpOptions) error { _, err := NewWarmingUp(o); return err }
	allowance := func(r Rate) error { _, err := NewAllowance(AllowanceOptions{Rate: r}); return err }
	queue := func(o QueueOptions) error { _, err := NewQueue(o); return err }
	tokens := func(o TokenQueueOptions) error { _, err := NewTokenQueue(o); return err }
	for _, c := range []struct {
		name  string
		err   error
		field string
	}{
		{"no rate", bursty(BurstyOptions{}), "Rate.Permits 0"},
		{"negative permits", bursty(BurstyOptions{Rate: PerSecond(-5)}), "Rate.Permits -5"},
		{"no period", bursty(BurstyOptions{Rate: Rate{Permits: 5}}), "Rate.Per 0s"},
		{"negative period", bursty(BurstyOptions{Rate: Rate{5, -time.Second}}), "Rate.Per -1s"},
		{"endless period", bursty(BurstyOptions{Rate: Rate{5, math.MaxInt64}}), "Rate.Per"},
		{"negative burst", bursty(BurstyOptions{Rate: PerSecond(5), MaxBurst: -2}), "MaxBurst -2"},
		{"endless burst", bursty(BurstyOptions{Rate: PerSecond(5), MaxBurst: math.MaxInt64}), "MaxBurst"},

		{"no rate", warming(WarmingUpOptions{WarmUp: time.Second}), "Rate.Permits 0"},
		{"no warm-up", warming(WarmingUpOptions{Rate: PerSecond(5)}), "WarmUp 0s"},
		{"negative warm-up", warming(WarmingUpOptions{Rate: PerSecond(5), WarmUp: -1}), "WarmUp -1ns"},
		{"endless warm-up", warming(WarmingUpOptions{Rate: PerSecond(5), WarmUp: math.MaxInt64}), "WarmUp"},
		{"overflowing rate", warming(WarmingUpOptions{Rate: PerSecond(math.MaxInt64), WarmUp: time.Second}), "WarmUp 1s"},
		{"colder than cold", warming(WarmingUpOptions{Rate: PerSecond(5), WarmUp: time.Second, ColdFactor: 0.99}), "ColdFactor 0.99"},
		{"negative factor", warming(WarmingUpOptions{Rate: PerSecond(5), WarmUp: time.Second, ColdFactor: -3}), "ColdFactor -3"},
		{"large factor", warming(WarmingUpOptions{Rate: PerSecond(5), WarmUp: time.Second, ColdFactor: 1001}), "ColdFactor 1001"},
		{"fine factor", warming(WarmingUpOptions{Rate: PerSecond(5), WarmUp: time.Second, ColdFactor: 1.234}), "ColdFactor 1.234"},
		{"factor NaN", warming(WarmingUpOptions{Rate: PerSecond(5), WarmUp: time.Second, ColdFactor: math.NaN()}), "ColdFactor NaN"},
		{"factor Inf", warming(WarmingUpOptions{Rate: PerSecond(5), WarmUp: time.Second, ColdFactor: math.Inf(1)}), "ColdFactor +Inf"},

		{"no rate", allowance(Rate{}), "Rate.Permits 0"},
		{"negative period", allowance(Rate{1, -1}), "Rate.Per -1ns"},

		{"no rate", queue(QueueOptions{Capacity: 1}), "Rate.Permits 0"},
		{"no capacity", queue(QueueOptions{Rate: PerSecond(1)}), "Capacity 0"},
		{"negative capacity", queue(QueueOptions{Rate: PerSecond(1), Capacity: -1}), "Capacity -1"},
		{"endless capacity", queue(QueueOptions{Rate: PerSecond(1), Capacity: math.MaxInt64}), "Capacity"},

		{"no rate", tokens(TokenQueueOptions{Capacity: 1}), "Rate.Permits 0"},
		{"no capacity", tokens(TokenQueueOptions{Rate: PerSecond(1)}), "Capacity 0"},
		{"endless capacity", tokens(TokenQueueOptions{Rate: PerSecond(1), Capacity: math.MaxInt64}), "Capacity"},
	} {
		var input *InputError
		if !errors.Is(c.err, ErrInvalidOption) || !errors.As(c.err, &input) {
			t.Errorf("%s: got %v, want an InputError that is ErrInvalidOption", c.name, c.err)
			continue
		}
		if got := c.err.Error(); !strings.Contains(got, c.field) || input.Want == "" {
			t.Errorf("%s: the message %q doesn't say %q and what would be right", c.name, got, c.field)
		}
	}
}

func TestExtremeRatesWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			rate  Rate
			take  int64
			delay time.Duration // of the next permit
		}{
			{Rate{math.MaxInt64, 1}, math.MaxInt64, 1},
			{Rate{math.MaxInt64, time.Second}, math.MaxInt64, time.Second},
			{Rate{math.MaxInt64, time.Second}, 1, 1},
			{Rate{1, 1}, 1 << 60, 1 << 60},
			{Rate{1, time.Duration(farFuture / 4)}, 1, time.Duration(farFuture / 4)},
		} {
			for _, burst := range []int64{0, NoBurst, 1} {
				b := newBursty(t, BurstyOptions{Rate: c.rate, MaxBurst: burst})
				b.Reserve(c.take)
				if got := b.Reserve(1); got.Delay() != c.delay {
					t.Errorf("%v burst %d: after %d the next waits %v, want %v", c.rate, burst, c.take, got.Delay(), c.delay)
				}
			}
		}
	})
}

// pacers returns one of each kind, by name, as what it means to acquire.
func pacers(t *testing.T) map[string]func(context.Context, int64) (time.Duration, error) {
	t.Helper()
	return map[string]func(context.Context, int64) (time.Duration, error){
		"Bursty":     newBursty(t, BurstyOptions{Rate: PerSecond(10)}).Acquire,
		"WarmingUp":  newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(10), WarmUp: time.Second}).Acquire,
		"Allowance":  newAllowance(t, PerSecond(10)).Acquire,
		"Queue":      newQueue(t, PerSecond(10), 10).Acquire,
		"TokenQueue": newTokenQueue(t, TokenQueueOptions{Rate: PerSecond(10), Capacity: 10, StartFull: true}).Acquire,
	}
}

func TestBadArgumentsAreRefusedAndTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, cancel := context.WithCancelCause(context.Background())
		why := errors.New("the user went home")
		cancel(why)
		for name, acquire := range pacers(t) {
			for _, c := range []struct {
				what string
				ctx  context.Context
				n    int64
				want error
			}{
				{"a nil context", nil, 1, ErrNilContext},
				{"none", context.Background(), 0, ErrInvalidCount},
				{"fewer than none", context.Background(), -1, ErrInvalidCount},
				{"the fewest", context.Background(), math.MinInt64, ErrInvalidCount},
				{"the most", context.Background(), math.MaxInt64, ErrNever},
				{"a cancelled context", over, 1, context.Canceled},
				{"a cancelled context, and why", over, 1, why},
			} {
				if waited, err := acquire(c.ctx, c.n); waited != 0 || !errors.Is(err, c.want) {
					t.Errorf("%s: %s: got %v, %v, want 0, %v", name, c.what, waited, err, c.want)
				}
			}
			if waited, err := acquire(context.Background(), 10); waited != 0 || err != nil {
				t.Errorf("%s: ten after the refusals: got %v, %v, want 0, nil", name, waited, err)
			}
		}
		q := newQueue(t, PerSecond(10), 10)
		do := func(context.Context) error { return nil }
		for _, c := range []struct {
			what string
			ctx  context.Context
			n    int64
			do   func(context.Context) error
			want error
		}{
			{"a nil context", nil, 1, do, ErrNilContext},
			{"a nil job", context.Background(), 1, nil, ErrNilJob},
			{"none", context.Background(), 0, do, ErrInvalidCount},
			{"more than the capacity", context.Background(), 11, do, ErrNever},
			{"a cancelled context", over, 1, do, context.Canceled},
		} {
			if _, err := q.Submit(c.ctx, c.n, c.do); !errors.Is(err, c.want) {
				t.Errorf("Submit: %s: got %v, want %v", c.what, err, c.want)
			}
		}
		if got := q.Waiting(); got != 0 {
			t.Errorf("Waiting() after refusals = %d, want 0", got)
		}
	})
}

func TestZeroPacersRefuse(t *testing.T) {
	for name, acquire := range map[string]func(context.Context, int64) (time.Duration, error){
		"Bursty":     new(Bursty).Acquire,
		"WarmingUp":  new(WarmingUp).Acquire,
		"Allowance":  new(Allowance).Acquire,
		"Queue":      new(Queue).Acquire,
		"TokenQueue": new(TokenQueue).Acquire,
	} {
		if _, err := acquire(context.Background(), 1); !errors.Is(err, ErrUninitialized) {
			t.Errorf("%s: got %v, want ErrUninitialized", name, err)
		}
	}
	for name, p := range map[string]Pacer{
		"Bursty": new(Bursty), "WarmingUp": new(WarmingUp), "Allowance": new(Allowance), "TokenQueue": new(TokenQueue),
		"Queue": new(Queue),
	} {
		if r := p.Reserve(1); r.OK() || !errors.Is(r.Err(), ErrUninitialized) {
			t.Errorf("%s: Reserve: OK %v, Err %v, want false, ErrUninitialized", name, r.OK(), r.Err())
		}
		if p.TryAcquire(1, time.Hour) {
			t.Errorf("%s: TryAcquire = true, want false", name)
		}
	}
	if _, err := new(Queue).Submit(context.Background(), 1, func(context.Context) error { return nil }); !errors.Is(err, ErrUninitialized) {
		t.Errorf("Queue.Submit = %v, want ErrUninitialized", err)
	}
	new(Queue).Close()
	new(TokenQueue).Close()
	if a, b, c := new(Allowance).Available(), new(TokenQueue).Available(), new(Queue).Waiting(); a+b+c != 0 {
		t.Errorf("Available, Available and Waiting = %d, %d, %d, want 0", a, b, c)
	}
	if a, b, c := new(Bursty).Rate(), new(WarmingUp).Rate(), new(Allowance).Rate(); a != b || b != c || c != (Rate{}) {
		t.Errorf("Rate = %v, %v, %v, want the zero Rate", a, b, c)
	}
}

func TestADeadlineThatComesTooSoonSaysByHowMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBursty(t, BurstyOptions{Rate: PerSecond(10)})
		b.Reserve(10)
		ctx, cancel := context.WithTimeout(context.Background(), 300*ms)
		defer cancel()
		_, err := b.Acquire(ctx, 1)
		var late *DeadlineError
		if !errors.As(err, &late) || *late != (DeadlineError{Wait: time.Second, Left: 300 * ms}) {
			t.Fatalf("Acquire = %#v, want a DeadlineError with Wait 1s and Left 300ms", err)
		}
		if !errors.Is(err, ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("%v is ErrDeadline %v, DeadlineExceeded %v, Canceled %v, want true, true, false", err,
				errors.Is(err, ErrDeadline), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled))
		}
		if got, want := err.Error(), "deadline is before the end of the wait: the wait is 1s and the context has 300ms left"; got != want {
			t.Errorf("message %q, want %q", got, want)
		}
	})
}
