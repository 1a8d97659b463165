package grpcapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/proto/grpcwire"
	"github.com/headgate/headgate/proto/grpcwire/wirev1"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

var storeDesc = grpc.ServiceDesc{
	ServiceName: headgatev1.Store_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Metadata:    headgatev1.Store_ServiceDesc.Metadata,
	Methods:     []grpc.MethodDesc{{MethodName: "Do", Handler: handleDo}},
}

// A storeCall is a Do call. Like a rateLimitCall, it is both the request and the response message.
type storeCall struct {
	server    *Server
	request   wirev1.DoRequest
	decisions []headgate.Decision
	keys      []byte // the callers' keys with their prefix
	out       []byte
}

func (c *storeCall) MarshalWire(dst []byte) ([]byte, error) {
	dst = append(dst, c.out...)
	c.release()
	return dst, nil
}

func (c *storeCall) UnmarshalWire(b []byte) error { return c.request.UnmarshalWire(b) }

func (c *storeCall) release() {
	if cap(c.out) <= maxPooledBytes && cap(c.keys) <= maxPooledBytes && c.request.BufferSize() <= maxPooledBytes &&
		cap(c.request.Operations) <= maxPooledRequests {
		c.server.storeCalls.Put(c)
	}
}

//nolint:revive // gRPC wants ctx second
func handleDo(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	s := srv.(*Server)
	c := s.storeCalls.Get().(*storeCall)
	err := decode(c)
	if err == nil && c.request.TooMany {
		err = status.Error(codes.InvalidArgument, "too many checks in the call: want at most "+strconv.Itoa(
			s.config.MaxBatch))
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
	s.parallel(len(results), func(i int) {
		part := s.storeCalls.Get().(*storeCall)
		part.out = part.out[:0]
		part.do(ctx, &c.request.Operations[i])
		results[i] = append([]byte(nil), part.out...)
		part.release()
	})
	for _, result := range results {
		c.out = append(c.out, result...)
	}
	return c, nil
}

var errForbidden = errors.New("reset: needs the token of the decision service or of the administrator")

// do executes one operation and appends its result to out.
func (c *storeCall) do(ctx context.Context, op *wirev1.Operation) {
	decisions, err := c.execute(ctx, op)
	if decisions != nil {
		c.decisions = decisions
	}
	if err == nil && ctx.Err() != nil {
		c.freeSlots(op, decisions)
		err = ctx.Err()
	}
	if err == nil {
		c.out = wirev1.AppendResult(c.out, decisions)
		return
	}
	f := failureOf(err)
	if f.Fault == wirev1.Unavailable && ctx.Err() == nil {
		c.server.logFault(err)
	}
	c.out = wirev1.AppendFailure(c.out, &f)
}

// freeSlots frees the concurrency slots of decisions that are not delivered. Units stay taken.
func (c *storeCall) freeSlots(op *wirev1.Operation, decisions []headgate.Decision) {
	if op.Verb != wirev1.Take {
		return
	}
	for i := range decisions {
		check, receipt := op.Checks[i], decisions[i].Receipt
		if check.Limit.Algorithm != headgate.Concurrency || receipt.Units == 0 {
			continue
		}
		check.Cost = receipt.Units
		ctx, end := context.WithTimeout(context.Background(), freeTimeout)
		if err := c.server.config.Store.Give(ctx, check, receipt); err != nil {
			c.server.logFault(err)
		}
		end()
	}
}

// freeTimeout limits the time to return a slot. If this fails, the slot expires.
const freeTimeout = time.Second

// execute sends the operation to the store.
func (c *storeCall) execute(ctx context.Context, op *wirev1.Operation) ([]headgate.Decision, error) {
	store, decisions := c.server.config.Store, c.decisions[:0]
	if !op.Verb.Known() || op.Verb != wirev1.Take && len(op.Checks) != 1 {
		return nil, &headgate.InputError{
			Err: headgate.ErrInvalidCheck, Field: "operation", Value: fmt.Sprintf("verb %d with %d checks", op.Verb,
				len(op.Checks)),
			Want: "a verb of headgate.v1.Verb, and one check; only Take may have several",
		}
	}
	c.keys = c.keys[:0]
	for i := range op.Checks {
		if err := validate(&op.Checks[i], op.Verb); err != nil {
			return nil, err
		}
		c.prefixKeys(&op.Checks[i])
	}
	switch op.Verb {
	case wirev1.Charge:
		d, err := store.Charge(ctx, op.Checks[0])
		return append(decisions, d), err
	case wirev1.Peek:
		d, err := store.Peek(ctx, op.Checks[0])
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

// Keys of callers are prefixed with a byte that is never the first byte of rules' keys. A key that would become too
// long is replaced by its hash, with another prefix.
const (
	keyPrefix       = "\x01"
	hashedKeyPrefix = "\x02"
)

// validate checks a check before its key is prefixed, so that errors contain the caller's key. Stores do not validate
// everything.
func validate(c *headgate.Check, verb wirev1.Verb) error {
	switch verb {
	case wirev1.Reset: // Reset ignores the limit
		c.Limit, c.Safe, c.Cost = headgate.PerSecond(1), nil, 1
	case wirev1.Peek:
		return c.ValidatePeek()
	}
	return c.Validate()
}

// prefixKeys prefixes the keys of a check.
func (c *storeCall) prefixKeys(check *headgate.Check) {
	check.Key = c.prefixKey(check.Key)
	if check.Owner != "" {
		check.Owner = c.prefixKey(check.Owner)
	}
}

// prefixKey returns a key with its prefix. If the store borrows keys, the result is valid only during the call.
func (c *storeCall) prefixKey(key string) string {
	start := len(c.keys)
	if len(key) <= headgate.MaxKeyBytes-len(keyPrefix) {
		c.keys = append(append(c.keys, keyPrefix...), key...)
	} else {
		sum := sha256.Sum256([]byte(key))
		c.keys = append(append(c.keys, hashedKeyPrefix...), sum[:]...)
	}
	prefixed := c.keys[start:]
	if c.server.storeBorrowsKeys {
		return grpcwire.Borrow(prefixed)
	}
	return string(prefixed)
}

// failureOf converts an error for the response. Errors that callers distinguish have their own fault code.
func failureOf(err error) wirev1.Failure {
	f := wirev1.Failure{Message: errorText(err)}
	var input *headgate.InputError
	switch {
	case errors.As(err, &input):
		f.Field, f.Value, f.Want = validUTF8(input.Field), validUTF8(input.Value), validUTF8(input.Want)
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
		f.Fault, f.Message = wirev1.Unavailable, "the store is unreachable; see the server's log"
	}
	return f
}

func validUTF8(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
