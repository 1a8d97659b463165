package resp

import (
	"context"
	"errors"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/server/service"
)

// take replies to HG.TAKE rule key [cost].
func (k *executor) take(ctx context.Context, args [][]byte) {
	t := engine.Terms{Rule: borrowedString(args[1]), Unheld: true}
	if len(args) == 4 {
		cost, ok := readInt(args[3])
		if !ok {
			k.fail(textNotInteger)
			return
		}
		if cost < 1 {
			k.fail("ERR cost must be 1 or more; HG.PEEK reads without taking")
			return
		}
		t.Cost, t.HasCost = cost, true
	}
	k.decide(ctx, t, args[2])
}

// peek replies to HG.PEEK rule key.
func (k *executor) peek(ctx context.Context, args [][]byte) {
	k.decide(ctx, engine.Terms{Rule: borrowedString(args[1]), HasCost: true, Unheld: true}, args[2])
}

func (k *executor) decide(ctx context.Context, t engine.Terms, key []byte) {
	if err := k.subject.read(k.server, t.Rule, borrowedString(key)); err != nil {
		k.failWith(err)
		return
	}
	err := k.server.config.Engine.DecideTerms(ctx, &k.subject.attributes, t, &k.verdict)
	if err == nil && k.verdict.Reason == engine.Overloaded {
		err = headgate.ErrOverloaded
	}
	if err != nil {
		k.failWith(err)
		return
	}
	k.out = k.appendVerdict(k.out)
	if k.verdict.Action.Passes() {
		k.allowed++
	} else {
		k.denied++
	}
}

// appendVerdict appends 1 or 0 for allowed or denied, the limit, the remaining units, and the times until a retry and
// until a full reset in milliseconds; and the lease if there is one.
func (k *executor) appendVerdict(dst []byte) []byte {
	v := &k.verdict
	d := &v.Decision
	k.lease = v.AppendLease(k.lease[:0])
	if len(k.lease) > 0 {
		dst = append(dst, "*6\r\n"...)
	} else {
		dst = append(dst, "*5\r\n"...)
	}
	passes, retry := int64(0), int64(-1)
	switch {
	case v.Action.Passes():
		passes = 1
		if v.Delay > 0 {
			retry = service.Millis(v.Delay)
		}
	case v.RetryAfter != headgate.Never:
		retry = service.Millis(v.RetryAfter)
	}
	dst = appendInt(dst, passes)
	limit, remaining := d.Limit, max(d.Remaining, 0)
	if limit == 0 && passes == 1 {
		limit, remaining = -1, -1 // no limit applies
	}
	dst = appendInt(dst, limit)
	dst = appendInt(dst, remaining)
	dst = appendInt(dst, retry)
	dst = appendInt(dst, service.Millis(d.ResetAfter))
	if len(k.lease) > 0 {
		dst = appendBulk(dst, k.lease)
	}
	return dst
}

// reset replies to HG.RESET rule key.
func (k *executor) reset(ctx context.Context, args [][]byte) {
	rule := borrowedString(args[1])
	if err := k.subject.read(k.server, rule, borrowedString(args[2])); err != nil {
		k.failWith(err)
		return
	}
	if err := k.server.config.Engine.Reset(ctx, rule, &k.subject.attributes); err != nil {
		k.failWith(err)
		return
	}
	k.out = append(k.out, textOK...)
}

// release replies to HG.RELEASE lease.
func (k *executor) release(ctx context.Context, args [][]byte) {
	if err := k.server.config.Engine.Release(ctx, borrowedString(args[1])); err != nil {
		k.failWith(err)
		return
	}
	k.out = append(k.out, textOK...)
}

// renew replies to HG.RENEW lease.
func (k *executor) renew(ctx context.Context, args [][]byte) {
	held, ttl, err := k.server.config.Engine.Renew(ctx, borrowedString(args[1]))
	if err != nil {
		k.failWith(err)
		return
	}
	k.out = append(k.out, "*2\r\n"...)
	if held {
		k.out = appendInt(k.out, 1)
	} else {
		k.out = appendInt(k.out, 0)
	}
	k.out = appendInt(k.out, service.Millis(ttl))
}

// borrowedString returns b as a string without a copy. It is valid until the command was executed.
func borrowedString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// failWith replies with an error. It is the only place that maps errors to RESP.
func (k *executor) failWith(err error) {
	var input *headgate.InputError
	switch {
	case errors.As(err, &input), errors.Is(err, engine.ErrNoRule), errors.Is(err, engine.ErrLease):
		k.fail("ERR " + oneLine(err.Error()))
	case errors.Is(err, headgate.ErrOverloaded), errors.Is(err, context.DeadlineExceeded):
		k.fail(textBusy) // not decided by a failure policy: overload must not switch limits off
	case errors.Is(err, context.Canceled):
		k.fail("TRYAGAIN no decision in time")
	default:
		k.server.storeFailed(err)
		k.fail("ERR " + oneLine(err.Error()))
	}
}
