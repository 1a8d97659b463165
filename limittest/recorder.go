package limittest

import (
	"context"
	"slices"
	"sync"

	"github.com/headgate/headgate"
)

// A Recorder is a Limiter that passes all calls to another one and records them, so that a test can check them.
// Create one with NewRecorder. It is safe for concurrent use.
type Recorder struct {
	limiter headgate.Limiter

	mu    sync.Mutex
	calls []Call
}

var _ headgate.Limiter = (*Recorder)(nil)

// A Call is one call of a Limiter.
type Call struct {
	// Method is the name of the method, such as "Take".
	Method string
	// Checks are the checks of the call: several for TakeAll, otherwise one.
	Checks []headgate.Check
}

// NewRecorder returns a Recorder of a limiter, such as Allowing().
func NewRecorder(l headgate.Limiter) *Recorder { return &Recorder{limiter: l} }

// Calls returns the calls so far, in their order.
func (r *Recorder) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

func (r *Recorder) record(method string, checks ...headgate.Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, Call{method, slices.Clone(checks)})
}

// Take records the call.
func (r *Recorder) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	r.record("Take", c)
	return r.limiter.Take(ctx, c)
}

// Peek records the call.
func (r *Recorder) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	r.record("Peek", c)
	return r.limiter.Peek(ctx, c)
}

// TakeAll records the call.
func (r *Recorder) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	r.record("TakeAll", checks...)
	return r.limiter.TakeAll(ctx, checks, dst)
}

// Charge records the call.
func (r *Recorder) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	r.record("Charge", c)
	return r.limiter.Charge(ctx, c)
}

// Renew records the call.
func (r *Recorder) Renew(ctx context.Context, c headgate.Check, receipt headgate.Receipt) (bool, error) {
	r.record("Renew", c)
	return r.limiter.Renew(ctx, c, receipt)
}

// Give records the call.
func (r *Recorder) Give(ctx context.Context, c headgate.Check, receipt headgate.Receipt) error {
	r.record("Give", c)
	return r.limiter.Give(ctx, c, receipt)
}

// Reset records the call.
func (r *Recorder) Reset(ctx context.Context, c headgate.Check) error {
	r.record("Reset", c)
	return r.limiter.Reset(ctx, c)
}
