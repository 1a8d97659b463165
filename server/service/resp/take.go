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
func (e *executor) take(ctx context.Context, args [][]byte) {
	options := engine.DecideOptions{Rule: borrowedString(args[1]), NoWait: true}
	if len(args) == 4 {
		cost, ok := readInt(args[3])
		if !ok {
			e.fail(textNotInteger)
			return
		}
		if cost < 1 {
			e.fail("ERR cost must be 1 or more; HG.PEEK reads without taking")
			return
		}
		options.Cost, options.HasCost = cost, true
	}
	e.decide(ctx, options, args[2])
}

// peek replies to HG.PEEK rule key. It decides a request of cost 0, which takes nothing.
func (e *executor) peek(ctx context.Context, args [][]byte) {
	e.decide(ctx, engine.DecideOptions{Rule: borrowedString(args[1]), HasCost: true, NoWait: true}, args[2])
}

// decide replies with a decision by the rule in options about the client in key.
func (e *executor) decide(ctx context.Context, options engine.DecideOptions, key []byte) {
	if err := e.subject.read(e.server, options.Rule, borrowedString(key)); err != nil {
		e.failWith(err)
		return
	}
	err := e.server.config.Engine.DecideWith(ctx, &e.subject.attributes, options, &e.verdict)
	if err == nil && e.verdict.Reason == engine.Overloaded {
		err = headgate.ErrOverloaded
	}
	if err != nil {
		e.failWith(err)
		return
	}
	e.out = e.appendVerdict(e.out)
	if e.verdict.Action.Passes() {
		e.allowed++
	} else {
		e.denied++
	}
}

// appendVerdict appends the reply to a decision by a rule. The reply is a list: 1 if the request passes and 0 if not,
// the limit, the remaining units, the milliseconds until a retry may pass, the milliseconds until the counter is fully
// reset, and the lease if there is one. The limit and the remaining units are -1 if no limit applies.
func (e *executor) appendVerdict(dst []byte) []byte {
	v := &e.verdict
	d := &v.Decision
	e.lease = v.AppendLease(e.lease[:0])
	if len(e.lease) > 0 {
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
	if len(e.lease) > 0 {
		dst = appendBulk(dst, e.lease)
	}
	return dst
}

// reset replies to HG.RESET rule key.
func (e *executor) reset(ctx context.Context, args [][]byte) {
	rule := borrowedString(args[1])
	if err := e.subject.read(e.server, rule, borrowedString(args[2])); err != nil {
		e.failWith(err)
		return
	}
	if err := e.server.config.Engine.Reset(ctx, rule, &e.subject.attributes); err != nil {
		e.failWith(err)
		return
	}
	e.out = append(e.out, textOK...)
}

// release replies to HG.RELEASE lease.
func (e *executor) release(ctx context.Context, args [][]byte) {
	if err := e.server.config.Engine.Release(ctx, borrowedString(args[1])); err != nil {
		e.failWith(err)
		return
	}
	e.out = append(e.out, textOK...)
}

// renew replies to HG.RENEW lease.
func (e *executor) renew(ctx context.Context, args [][]byte) {
	held, ttl, err := e.server.config.Engine.Renew(ctx, borrowedString(args[1]))
	if err != nil {
		e.failWith(err)
		return
	}
	e.out = append(e.out, "*2\r\n"...)
	if held {
		e.out = appendInt(e.out, 1)
	} else {
		e.out = appendInt(e.out, 0)
	}
	e.out = appendInt(e.out, service.Millis(ttl))
}

// borrowedString returns b as a string without a copy. The string is valid only while the command is executed. Then the
// buffer that contains b is used for other data.
func borrowedString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// failWith replies with an error. Only this method translates errors to RESP.
func (e *executor) failWith(err error) {
	var input *headgate.InputError
	switch {
	case errors.As(err, &input), errors.Is(err, engine.ErrNoRule), errors.Is(err, engine.ErrLease):
		e.fail("ERR " + oneLine(err.Error()))
	case errors.Is(err, headgate.ErrOverloaded), errors.Is(err, context.DeadlineExceeded):
		e.fail(textBusy) // a failure policy could allow the request, but overload must not switch limits off
	case errors.Is(err, context.Canceled):
		e.fail("TRYAGAIN no decision in time")
	default:
		e.server.reportStoreFailure(err)
		e.fail("ERR " + oneLine(err.Error()))
	}
}
