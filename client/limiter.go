package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/proto/grpcwire/wirev1"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
	"github.com/headgate/headgate/redisstore/guard"
)

// Limiter returns a limiter whose counters are in the service, behind a guard: a deadline for each call (default 20
// ms), policies for an unreachable service, and a deny cache. The service must offer headgate.v1.Store. Close the guard
// before the client.
func (c *Client) Limiter(o guard.Options) (*guard.Guard, error) {
	return guard.New(c.Store(), o)
}

// Store is like Limiter, but without the guard: if the service is unreachable, its methods return errors. Use it if you
// have a guard of your own.
func (c *Client) Store() *Store { return &Store{client: c} }

// A Store is a headgate.Limiter whose counters are in the service. It is safe for concurrent use.
type Store struct{ client *Client }

var _ headgate.LimitValidator = (*Store)(nil)

// Take takes the cost of a check if its limit allows it.
func (s *Store) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return s.operate(ctx, wirev1.Take, c, headgate.Receipt{})
}

// Peek returns the decision that Take would return now, and takes nothing.
func (s *Store) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return s.operate(ctx, wirev1.Peek, c, headgate.Receipt{})
}

// Charge takes the cost of a check whether or not it is within the limit.
func (s *Store) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return s.operate(ctx, wirev1.Charge, c, headgate.Receipt{})
}

// Renew renews the slot of a concurrency limit for another TTL.
func (s *Store) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (held bool, err error) {
	d, err := s.operate(ctx, wirev1.Renew, c, r)
	return d.Allowed, err
}

// Give refunds units.
func (s *Store) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	_, err := s.operate(ctx, wirev1.Give, c, r)
	return err
}

// Reset resets the counter of the check's key. Services that require no token refuse it.
func (s *Store) Reset(ctx context.Context, c headgate.Check) error {
	c.Limit, c.Cost, c.Safe = headgate.Limit{}, 0, nil // unused
	_, err := s.operate(ctx, wirev1.Reset, c, headgate.Receipt{})
	return err
}

// operate executes an operation on one check. Operations without a decision return the zero Decision.
func (s *Store) operate(
	ctx context.Context, verb wirev1.Verb, c headgate.Check, r headgate.Receipt,
) (d headgate.Decision, err error) {
	if ctx == nil {
		return d, headgate.ErrNilContext
	}
	switch verb {
	case wirev1.Peek:
		err = c.ValidatePeek()
	case wirev1.Reset:
		err = headgate.ValidateKey(c.Key)
	default:
		err = c.Validate()
	}
	if err != nil {
		return d, err
	}
	t := newTask()
	t.verb, t.single[0], t.receipt = verb, c, r
	t.receipt.At = unpackAt(r.At)
	t.checks = t.single[:]
	t.idempotent = verb == wirev1.Peek || verb == wirev1.Renew || verb == wirev1.Reset
	owned, err := s.do(ctx, t)
	if !owned {
		return d, err
	}
	defer t.free()
	if err == nil && len(t.decisions) > 0 {
		d = t.decisions[0]
	}
	return d, err
}

// TakeAll takes the costs of all checks, or of none if one of them is denied.
func (s *Store) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if ctx == nil {
		return dst, headgate.ErrNilContext
	}
	if err := headgate.ValidateCombination(checks); err != nil {
		return dst, err
	}
	for i := range checks {
		if err := checks[i].Validate(); err != nil {
			return dst, err
		}
	}
	if len(checks) == 0 {
		return dst, nil
	}
	t := newTask()
	// A copy, because the caller may reuse its slice after ctx has ended, while the task still runs.
	t.checks = slices.Clone(checks)
	owned, err := s.do(ctx, t)
	if !owned {
		return dst, err
	}
	defer t.free()
	if err != nil {
		return dst, err
	}
	return append(dst, t.decisions...), nil
}

// do executes a task and returns its error. If owned is false, the task is still running and the caller must not use
// it.
func (s *Store) do(ctx context.Context, t *task) (owned bool, err error) {
	owned, err = s.client.storeCalls.run(ctx, t)
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return owned, err
	}
	if ctx.Err() != nil && isServiceFailure(err) {
		return owned, ctx.Err()
	}
	if _, isStatus := status.FromError(err); isStatus {
		err = fmt.Errorf("client: store: %w", err)
	}
	return owned, err
}

// foreignReceipt is a bit in the time of a receipt. It marks receipts that a guard in the service has issued. Guards
// issue receipts with negative times. So that the guard of this process does not take such a receipt for its own,
// packAt makes the time positive and sets this bit, which no real time has.
const foreignReceipt = 1 << 62

func packAt(at int64) int64 {
	if at < 0 {
		return ^at | foreignReceipt
	}
	return at
}

func unpackAt(at int64) int64 {
	if at > 0 && at&foreignReceipt != 0 {
		return ^(at &^ foreignReceipt)
	}
	return at
}

// operations encodes tasks as a headgate.v1.DoRequest.
type operations []*task

func (o operations) MarshalWire(dst []byte) ([]byte, error) {
	for _, t := range o {
		dst = wirev1.AppendOperation(dst, t.verb, t.checks, t.receipt)
	}
	return dst, nil
}

func (operations) UnmarshalWire([]byte) error { return errors.ErrUnsupported }

// sendOperations sends operations in one call.
func (c *Client) sendOperations(ctx context.Context, _ *callStream, deadline time.Time, batch []*task) {
	maxDecisions := 0
	for _, t := range batch {
		maxDecisions += t.weight()
	}
	response := wirev1.DoResponse{Max: maxDecisions}
	err := c.invoke(ctx, deadline, headgatev1.Store_Do_FullMethodName, operations(batch), &response)
	if err == nil && (len(response.Results) != len(batch) || response.TooMany) {
		err = errResultCount
	}
	for i, t := range batch {
		if t.err = err; err == nil {
			t.setResult(&response.Results[i])
		}
	}
}

var errResultCount = status.Error(codes.Internal, "the number of results in the service's response is wrong")

// setResult records the result of a task.
func (t *task) setResult(r *wirev1.Result) {
	if r.Failed {
		t.err = errorOf(&r.Failure)
		return
	}
	want := len(t.checks)
	if t.verb == wirev1.Give || t.verb == wirev1.Reset {
		want = 0
	}
	if len(r.Decisions) != want {
		t.err = errResultCount
		return
	}
	t.decisions = append(t.decisions[:0], r.Decisions...)
	for i := range t.decisions {
		t.decisions[i].Receipt.At = packAt(t.decisions[i].Receipt.At)
	}
}

// errorOf converts the failure of an operation to the error that the service's store has returned.
func errorOf(f *wirev1.Failure) error {
	message := strings.Clone(f.Message)
	switch f.Fault {
	case wirev1.InvalidLimit, wirev1.InvalidCheck:
		kind := headgate.ErrInvalidCheck
		if f.Fault == wirev1.InvalidLimit {
			kind = headgate.ErrInvalidLimit
		}
		return &headgate.InputError{
			Err: kind, Field: strings.Clone(f.Field), Value: strings.Clone(f.Value),
			Want: strings.Clone(f.Want),
		}
	case wirev1.Unsupported:
		return fmt.Errorf("client: store: %w", headgate.ErrUnsupported)
	case wirev1.Full:
		return fmt.Errorf("client: store: %w", headgate.ErrFull)
	case wirev1.Overloaded:
		return fmt.Errorf("client: store: %w", headgate.ErrOverloaded)
	case wirev1.Closed:
		return status.Error(codes.Unavailable, "the service's store is closed")
	case wirev1.Forbidden:
		return status.Error(codes.PermissionDenied, message)
	default:
		return status.Error(codes.Unavailable, message)
	}
}

// giveBackLost releases the slots of concurrency limits that a task has taken and whose caller stopped waiting. Units
// of other limits stay consumed, because the caller may have proceeded without the decision.
func (c *Client) giveBackLost(t *task) {
	if t.err != nil || t.verb != wirev1.Take {
		return
	}
	for i := range t.decisions {
		check, receipt := t.checks[i], t.decisions[i].Receipt
		if check.Limit.Algorithm != headgate.Concurrency || receipt.Units == 0 {
			continue
		}
		check.Cost = receipt.Units
		c.releases.Go(func() {
			if err := c.Store().Give(context.Background(), check, receipt); err != nil {
				c.options.Logger.Debug("cannot release a slot whose caller stopped waiting; it expires later", "err", err)
			}
		})
	}
}

// ValidateLimit returns an error for an invalid limit and for a custom algorithm. [headgate.Bind] uses it.
func (*Store) ValidateLimit(limit headgate.Limit) error { return limit.Validate() }
