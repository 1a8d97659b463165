package headgate

import (
	"context"
	"errors"
	"reflect"
)

// A Bound is a Limiter together with one limit. Most programs pass a Bound around, not a Limiter. Create one with
// [Bind]. Most callers want Allow; workers want Wait.
//
// A Bound is safe for concurrent use. The counters are in the Limiter, so all its Bounds share them, and a Bound can be
// copied. Methods without a context cannot be canceled: use Take if the Limiter calls a server.
type Bound struct {
	limiter  Limiter
	limit    Limit
	policy   Policy
	prepared PreparedLimit // an unprepared if the limiter does not implement Preparer
}

// Bind returns a Bound, which applies the limit to each key. It works with every Limiter.
//
// Use each key with one limit only. If two Bounds apply different limits to one key, each call looks like a change of
// the key's limit and converts its consumption, so the limit with the longer period is not enforced. Use [BindAll], or
// give each limit its own keys, such as "alice/second" and "alice/day".
//
// Bind returns an error if l is nil or the limit is invalid; see Limit.Validate. It can detect that the Limiter does
// not support a custom algorithm only if the Limiter is a [Preparer] or a [LimitValidator]. With other Limiters, Take
// returns the error and Allow denies.
func Bind(l Limiter, limit Limit) (*Bound, error) { return bind(l, limit, Open) }

// MustBind is Bind for limits known to be valid, such as constants. It panics on an error.
func MustBind(l Limiter, limit Limit) *Bound {
	b, err := Bind(l, limit)
	if err != nil {
		panic(err)
	}
	return b
}

func bind(l Limiter, limit Limit, policy Policy) (*Bound, error) {
	if l == nil {
		return nil, errNilLimiter
	}
	if err := limit.validateForBind(); err != nil {
		return nil, err
	}
	if v, ok := l.(LimitValidator); ok {
		if err := v.ValidateLimit(limit); err != nil {
			return nil, err
		}
	}
	b := &Bound{limiter: l, limit: limit, policy: policy}
	b.prepared = unprepared{b}
	if p, ok := l.(Preparer); ok {
		prepared, err := p.Prepare(limit, policy)
		if err != nil {
			return nil, err
		}
		// A type that embeds a Preparer may have its own Take, which the prepared limit would bypass.
		if reflect.ValueOf(l).Comparable() && prepared.Limiter() == l {
			b.prepared = prepared
		}
	}
	return b, nil
}

// validateForBind is like Validate, but accepts every custom algorithm. The Limiter checks those.
func (l Limit) validateForBind() error {
	if l.Algorithm >= FirstCustom {
		l.Algorithm = TokenBucket // has the same fields
	}
	return l.Validate()
}

var errNilLimiter = errors.New("nil limiter: pass one such as a memstore.Store")

// WithPolicy returns a copy of b that uses policy p when the Limiter fails. The default is Open.
//
// If the Limiter supports policies, as guard.Guard does, the policy applies to all methods. With other Limiters it
// applies to Allow and AllowN only, and Local behaves like Open.
func (b *Bound) WithPolicy(p Policy) *Bound {
	bound, err := bind(b.limiter, b.limit, p)
	if err != nil {
		panic(err) // impossible: the same limit was bound before
	}
	return bound
}

// Limit returns the limit.
func (b *Bound) Limit() Limit { return b.limit }

// Check returns the check of n units for a key, for TakeAll and for functions that need a Check.
func (b *Bound) Check(key string, n int64) Check {
	return Check{Key: key, Limit: b.limit, Cost: n, OnFailure: b.policy}
}

// Allow takes one unit for the key and reports whether the request is allowed.
//
// If the Limiter fails or its memory is full, the policy decides: the request is allowed unless the policy is Closed.
// The request is denied if the key is empty or too long, or if the Limiter is closed or overloaded. Take returns the
// error.
func (b *Bound) Allow(key string) bool { return b.prepared.Allow(key, 1) }

// AllowN is like Allow for n units. It returns false for n < 1.
func (b *Bound) AllowN(key string, n int64) bool { return b.prepared.Allow(key, n) }

// Take takes n units for the key if that is allowed. See [Limiter].
func (b *Bound) Take(ctx context.Context, key string, n int64) (Decision, error) {
	// A prepared limit has no context, so the Limiter handles a nil or ended ctx.
	if _, isUnprepared := b.prepared.(unprepared); isUnprepared || ctx == nil || ctx.Err() != nil {
		return b.limiter.Take(ctx, b.Check(key, n))
	}
	return b.prepared.Take(key, n)
}

// Peek returns the decision that Take would make for n units, and takes nothing. See [Limiter].
func (b *Bound) Peek(ctx context.Context, key string, n int64) (Decision, error) {
	return b.limiter.Peek(ctx, b.Check(key, n))
}

// Wait takes one unit as soon as it is allowed. See the function [Wait].
func (b *Bound) Wait(ctx context.Context, key string) error { return b.WaitN(ctx, key, 1) }

// WaitN is like Wait for n units.
func (b *Bound) WaitN(ctx context.Context, key string, n int64) error {
	return Wait(ctx, b.limiter, b.Check(key, n))
}

// Delay takes n units now, and says how long to wait before using them. See the function [Delay].
func (b *Bound) Delay(ctx context.Context, key string, n int64) (Decision, error) {
	return Delay(ctx, b.limiter, b.Check(key, n))
}

// Hold waits for a slot of a concurrency limit. See the function [Hold].
func (b *Bound) Hold(ctx context.Context, key string) (release func(), err error) {
	return Hold(ctx, b.limiter, b.Check(key, 1))
}

// Charge takes n units whether or not they are within the limit. See [Limiter].
func (b *Bound) Charge(ctx context.Context, key string, n int64) (Decision, error) {
	return b.limiter.Charge(ctx, b.Check(key, n))
}

// Give gives back n of the units that were taken with the receipt. See [Limiter].
func (b *Bound) Give(ctx context.Context, key string, n int64, r Receipt) error {
	return b.limiter.Give(ctx, b.Check(key, n), r)
}

// Settle sets the number of units that were taken with the receipt to used: it gives back the difference, or charges
// it. See the function [Settle].
func (b *Bound) Settle(ctx context.Context, key string, r Receipt, used int64) error {
	return Settle(ctx, b.limiter, b.Check(key, 1), r, used)
}

// Reset clears the consumption of the key.
func (b *Bound) Reset(ctx context.Context, key string) error {
	return b.limiter.Reset(ctx, Check{Key: key})
}

// A Preparer is a Limiter that decides faster if it knows the limit in advance, as memstore.Store does. [Bind] calls
// Prepare. It does not use the PreparedLimit of an embedded Preparer, because the outer type may have its own Take.
type Preparer interface {
	Limiter
	// Prepare returns a PreparedLimit for the limit. Its Allow uses the policy onFailure when the limiter fails. The error
	// is that of limit.Validate.
	Prepare(limit Limit, onFailure Policy) (PreparedLimit, error)
}

// A LimitValidator is a Limiter that knows which limits it does not support, such as those of a custom algorithm.
// [Bind] calls ValidateLimit. redisstore.Store and guard.Guard implement it.
type LimitValidator interface {
	Limiter
	// ValidateLimit returns an *InputError if every Take would refuse the limit, or nil. It calls no server.
	ValidateLimit(limit Limit) error
}

// A PreparedLimit applies one limit to each key. Its methods do the same as AllowN and Take of [Bound], without a
// context. It is safe for concurrent use.
type PreparedLimit interface {
	// Limiter returns the Preparer that created the PreparedLimit.
	Limiter() Limiter
	Allow(key string, n int64) bool
	Take(key string, n int64) (Decision, error)
}

// unprepared is the PreparedLimit of a Limiter that does not implement Preparer. It calls the Limiter's own methods.
type unprepared struct{ *Bound }

func (u unprepared) Allow(key string, n int64) bool {
	d, err := u.Take(key, n)
	if err != nil {
		return u.policy.Allows(err)
	}
	return d.Allowed
}

func (u unprepared) Limiter() Limiter { return u.limiter }

func (u unprepared) Take(key string, n int64) (Decision, error) {
	return u.limiter.Take(context.Background(), u.Check(key, n))
}

// Allows reports whether policy p admits a request whose decision failed with err. Closed admits no request. No policy
// admits a request after a caller error, such as ErrClosed or an InputError, or if the limiter is overloaded.
func (p Policy) Allows(err error) bool {
	var input *InputError
	deniedByAll := errors.Is(err, ErrClosed) || errors.Is(err, ErrNilContext) || errors.Is(err, ErrUnsupported) ||
		errors.Is(err, ErrOverloaded) || errors.As(err, &input)
	return p != Closed && !deniedByAll
}
