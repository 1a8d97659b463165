package grpcapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/grpcwire/wirev1"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

var storeDesc = grpc.ServiceDesc{
	ServiceName: headgatev1.Store_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Metadata:    headgatev1.Store_ServiceDesc.Metadata,
	Methods:     []grpc.MethodDesc{{MethodName: "Do", Handler: handleDo}},
}

// A doing is a Do. It is its own response, as a call is.
type doing struct {
	server    *Server
	request   wirev1.DoRequest
	decisions []headgate.Decision
	keys      []byte // of callers, as the store gets them
	out       []byte
}

func (c *doing) MarshalWire(dst []byte) ([]byte, error) {
	dst = append(dst, c.out...)
	c.release()
	return dst, nil
}

func (c *doing) UnmarshalWire(b []byte) error { return c.request.UnmarshalWire(b) }

func (c *doing) release() {
	if cap(c.out) <= keptBytes && cap(c.keys) <= keptBytes && c.request.Kept() <= keptBytes && cap(c.request.Operations) <= keptRequests {
		c.server.doings.Put(c)
	}
}

func handleDo(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC wants ctx second
	s := srv.(*Server)
	c := s.doings.Get().(*doing)
	err := decode(c)
	if err == nil && c.request.TooMany {
		err = status.Error(codes.InvalidArgument, "more checks than one call may have: want at most "+strconv.Itoa(s.config.MaxBatch))
	}
	if err != nil {
		c.release()
		return nil, err
	}
	c.out = c.out[:0]
	if s.config.Parallel == 1 || len(c.request.Operations) < 2 {
		for i := range c.request.Operations {
			c.do(ctx, &c.request.Operations[i])
		}
		return c, nil
	}
	results := make([][]byte, len(c.request.Operations))
	s.sideBySide(len(results), func(i int) {
		d := s.doings.Get().(*doing)
		d.out = d.out[:0]
		d.do(ctx, &c.request.Operations[i])
		results[i] = append([]byte(nil), d.out...)
		d.release()
	})
	for _, result := range results {
		c.out = append(c.out, result...)
	}
	return c, nil
}

var errForbidden = errors.New("reset: only for who shows the token of the decision service, or that of the administrator")

// do does one operation, and appends its result to out.
func (c *doing) do(ctx context.Context, op *wirev1.Operation) {
	decisions, err := c.ask(ctx, op)
	if decisions != nil {
		c.decisions = decisions
	}
	if err == nil && ctx.Err() != nil {
		c.withdraw(op, decisions)
		err = ctx.Err()
	}
	if err == nil {
		c.out = wirev1.AppendResult(c.out, decisions)
		return
	}
	f := failureOf(err)
	if f.Fault == wirev1.Unavailable && ctx.Err() == nil {
		c.server.fault(err)
	}
	c.out = wirev1.AppendFailure(c.out, &f)
}

// withdraw gives back the places that decisions hold which nobody gets. Units stay taken.
func (c *doing) withdraw(op *wirev1.Operation, decisions []headgate.Decision) {
	if op.Verb != wirev1.Take {
		return
	}
	for i := range decisions {
		check, receipt := op.Checks[i], decisions[i].Receipt
		if check.Limit.Algorithm != headgate.Concurrency || receipt.Units == 0 {
			continue
		}
		check.Cost = receipt.Units
		ctx, end := context.WithTimeout(context.Background(), withdrawTime)
		if err := c.server.config.Store.Give(ctx, check, receipt); err != nil {
			c.server.fault(err)
		}
		end()
	}
}

// withdrawTime is how long giving back a place may take. Its own time frees it otherwise.
const withdrawTime = time.Second

// ask asks the store.
func (c *doing) ask(ctx context.Context, op *wirev1.Operation) ([]headgate.Decision, error) {
	store, decisions := c.server.config.Store, c.decisions[:0]
	if !op.Verb.Known() || op.Verb != wirev1.Take && len(op.Checks) != 1 {
		return nil, &headgate.InputError{
			Err: headgate.ErrInvalidCheck, Field: "operation", Value: fmt.Sprintf("verb %d with %d checks", op.Verb, len(op.Checks)),
			Want: "a verb of headgate.v1.Verb, and one check; only taking has others",
		}
	}
	c.keys = c.keys[:0]
	for i := range op.Checks {
		if err := validate(&op.Checks[i], op.Verb); err != nil {
			return nil, err
		}
		c.apart(&op.Checks[i])
	}
	switch op.Verb {
	case wirev1.Charge:
		d, err := store.Charge(ctx, op.Checks[0])
		return append(decisions, d), err
	case wirev1.Give:
		return decisions, store.Give(ctx, op.Checks[0], op.Receipt)
	case wirev1.Renew:
		held, err := store.Renew(ctx, op.Checks[0], op.Receipt)
		return append(decisions, headgate.Decision{Allowed: held}), err
	case wirev1.Reset:
		if err := c.server.mayReset(ctx); err != nil {
			return nil, err
		}
		return decisions, store.Reset(ctx, op.Checks[0])
	default:
		if len(op.Checks) == 1 {
			d, err := store.Take(ctx, op.Checks[0])
			return append(decisions, d), err
		}
		return store.TakeAll(ctx, op.Checks, decisions)
	}
}

// Keys of callers begin with a sign that those of rules do not begin with. One that has no room for it is replaced by its
// hash, under another sign.
const (
	apartSign  = "\x01"
	hashedSign = "\x02"
)

// validate says what is wrong with a check, by the key that the caller knows. Stores need not look at all of it.
func validate(c *headgate.Check, verb wirev1.Verb) error {
	if verb == wirev1.Reset { // reads no limit
		c.Limit, c.Safe, c.Cost = headgate.PerSecond(1), nil, 0
	}
	return c.Validate()
}

// apart puts a check among those of callers.
func (c *doing) apart(check *headgate.Check) {
	check.Key = c.sign(check.Key)
	if check.Owner != "" {
		check.Owner = c.sign(check.Owner)
	}
}

// sign returns a key with its sign before it. A store that keeps no keys gets one that is only lent.
func (c *doing) sign(key string) string {
	start := len(c.keys)
	if len(key) <= headgate.MaxKeyBytes-len(apartSign) {
		c.keys = append(append(c.keys, apartSign...), key...)
	} else {
		sum := sha256.Sum256([]byte(key))
		c.keys = append(append(c.keys, hashedSign...), sum[:]...)
	}
	made := c.keys[start:]
	if c.server.borrows {
		return unsafe.String(unsafe.SliceData(made), len(made))
	}
	return string(made)
}

// failureOf returns an error as callers get it. Errors that callers tell apart keep their kind.
func failureOf(err error) wirev1.Failure {
	f := wirev1.Failure{Message: text(err)}
	var input *headgate.InputError
	switch {
	case errors.As(err, &input):
		f.Field, f.Value, f.Want = valid(input.Field), valid(input.Value), valid(input.Want)
		f.Fault = wirev1.InvalidCheck
		if errors.Is(err, headgate.ErrInvalidLimit) {
			f.Fault = wirev1.InvalidLimit
		}
	case errors.Is(err, headgate.ErrUnsupported):
		f.Fault = wirev1.Unsupported
	case errors.Is(err, headgate.ErrFull):
		f.Fault = wirev1.Full
	case errors.Is(err, headgate.ErrOverloaded):
		f.Fault = wirev1.Overloaded
	case errors.Is(err, headgate.ErrClosed):
		f.Fault = wirev1.Closed
	case errors.Is(err, errForbidden):
		f.Fault = wirev1.Forbidden
	default:
		f.Fault, f.Message = wirev1.Unavailable, "the store could not be asked; the server's log has more"
	}
	return f
}

func valid(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
