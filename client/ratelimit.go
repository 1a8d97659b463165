package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/proto/grpcwire/wirev1"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// A Request describes a request to decide.
type Request struct {
	// Rule is the id of the only rule to apply, whether its condition matches or not. Default "": all rules that match.
	Rule string
	// User, IP and APIKey identify the client: the attributes user, ip and api_key.
	User, IP, APIKey string
	// Attributes holds other attributes by their names in rules: path, method, header.x-plan.
	Attributes map[string]string
	// Cost replaces the costs of the rules if HasCost is set. A cost of 0 takes nothing and reports what remains.
	Cost    int64
	HasCost bool
}

// maxRequest limits the length of all texts of a request, in bytes.
const maxRequest = 128 << 10

// validate returns an error for texts that the service cannot read. The texts may come from the caller's clients, and
// invalid ones would make a whole batch of requests fail.
func (r *Request) validate() error {
	size := 0
	for _, text := range [...]string{r.Rule, r.User, r.IP, r.APIKey} {
		if size += len(text); !utf8.ValidString(text) {
			return errUTF8
		}
	}
	for name, value := range r.Attributes {
		if size += len(name) + len(value); !utf8.ValidString(name) || !utf8.ValidString(value) {
			return errUTF8
		}
	}
	if size > maxRequest {
		return errTooLarge
	}
	return nil
}

var (
	errUTF8     = status.Error(codes.InvalidArgument, "a text that is not UTF-8")
	errTooLarge = status.Error(codes.InvalidArgument, "more than 128 KiB of texts")
)

// A Decision is the decision on a Request. It is from the service, or from Options.OnFailure if the service failed.
type Decision struct {
	// Passed reports whether the request may proceed, after Delay if that is not 0.
	Passed bool
	// Delay is how long to delay the request.
	Delay time.Duration
	// RetryAfter is the time after which a denied request may succeed: headgate.Never if a retry is useless.
	RetryAfter time.Duration
	// Limit is the capacity of the tightest limit, and Remaining is the number of units left. Limit is 0 if no limit
	// applies.
	Limit, Remaining int64
	// Reset is when the limit is fully restored, by the service's clock.
	Reset time.Time
	// Rule is the id of the rule that denies or delays the request. If none does, it is the rule of the tightest limit.
	Rule string
	// Lease is the argument of Release and Renew. It is empty if the request holds no slot of a concurrency limit.
	Lease string
	// Reason is why the request is denied. HTTPStatus is the status to respond with. If Drop is set, close the connection
	// instead.
	Reason     headgatev1.Reason
	HTTPStatus int
	Drop       bool
	// Degraded reports whether a store or the service was unreachable and a policy decided.
	Degraded bool
}

// RateLimit requests a decision by the service's rules. An error means that the request is invalid (see its
// status.Code), that ctx has ended or that the client is closed; if the service fails, Options.OnFailure decides.
func (c *Client) RateLimit(ctx context.Context, r Request) (Decision, error) {
	if ctx == nil {
		return Decision{}, headgate.ErrNilContext
	}
	if err := r.validate(); err != nil {
		return Decision{}, fmt.Errorf("client: rate limit: %w", err)
	}
	var report func(error)
	if c.failing.Load() {
		var err error
		if report, err = c.circuit.Allow(); err != nil {
			return c.degraded(), nil //nolint:nilerr // the circuit is open: the policy decides
		}
	}
	decision, err := c.decide(ctx, &r)
	switch {
	case err == nil:
		c.reportResult(nil, report)
		return decision, nil
	case ctx.Err() != nil && !errors.Is(err, headgate.ErrClosed):
		if report != nil {
			report(errCallerGone)
		}
		return Decision{}, ctx.Err()
	case isServiceFailure(err):
		c.reportResult(err, report)
		return c.degraded(), nil
	default:
		c.reportResult(nil, report)
		return Decision{}, fmt.Errorf("client: rate limit: %w", err)
	}
}

// errCallerGone is the result of a call whose caller stopped waiting. It is unknown whether the service would have
// responded, so the circuit counts the call neither as a success nor as a failure.
var errCallerGone = errors.New("the caller gave up")

// reportResult reports the result of a call to the circuit. While all calls succeed the circuit is not used, and report
// is nil.
func (c *Client) reportResult(result error, report func(error)) {
	if result == nil && report == nil {
		return
	}
	if result != nil {
		c.failing.Store(true)
	}
	if report == nil {
		var err error
		if report, err = c.circuit.Allow(); err != nil {
			return // other calls have failed meanwhile and opened the circuit
		}
	}
	report(result)
	if result == nil && c.circuit.State() == gobreaker.StateClosed && c.circuit.Counts().ConsecutiveFailures == 0 {
		c.failing.Store(false)
	}
}

// degraded returns the decision of Options.OnFailure.
func (c *Client) degraded() Decision {
	if c.options.OnFailure == headgate.Open {
		return Decision{Passed: true, Degraded: true}
	}
	return Decision{
		Degraded: true, Reason: headgatev1.Reason_REASON_STORE_FAILED, HTTPStatus: 503, RetryAfter: probeInterval,
	}
}

// decide sends a request to the service and returns its decision.
func (c *Client) decide(ctx context.Context, r *Request) (Decision, error) {
	t := newTask()
	q := &t.request
	q.Rule, q.User, q.IP, q.APIKey, q.Cost, q.HasCost = r.Rule, r.User, r.IP, r.APIKey, r.Cost, r.HasCost
	q.Attributes = q.Attributes[:0]
	for name, value := range r.Attributes {
		q.Attributes = append(q.Attributes, wirev1.Attribute{Name: name, Value: value})
	}
	t.idempotent = r.HasCost && r.Cost == 0
	owned, err := c.ruleCalls.run(ctx, t)
	if !owned {
		return Decision{}, err
	}
	defer t.free()
	if err != nil {
		return Decision{}, err
	}
	return t.decision, nil
}

// newDecision returns a Decision that shares no memory with the message, which is reused. rule must be a copy of the
// message's rule id.
func newDecision(m *wirev1.RateLimitResponse, rule string) Decision {
	d := Decision{
		Passed: m.Passed, Delay: millis(m.DelayMs), RetryAfter: millis(m.RetryAfterMs),
		Limit: m.Limit, Remaining: m.Remaining,
		Rule: rule, Lease: string(m.Lease), Reason: headgatev1.Reason(m.Reason), HTTPStatus: int(m.HTTPStatus),
		Drop: m.Drop, Degraded: m.Degraded,
	}
	if m.RetryAfterMs < 0 {
		d.RetryAfter = headgate.Never
	}
	if m.HasReset {
		d.Reset = time.Unix(m.ResetSeconds, int64(m.ResetNanos))
	}
	return d
}

// millis converts milliseconds to a Duration. It returns headgate.Never if they do not fit in a Duration.
func millis(n int64) time.Duration {
	if n > math.MaxInt64/int64(time.Millisecond) {
		return headgate.Never
	}
	return time.Duration(n) * time.Millisecond
}

// maxRules is the maximum number of rule ids in the cache.
const maxRules = 1000

// ruleID returns a copy of a rule id, because the memory of borrowed is reused. Decisions share copies through
// a cache.
func (c *Client) ruleID(borrowed string) string {
	if borrowed == "" {
		return ""
	}
	c.ids.Lock()
	defer c.ids.Unlock()
	if id, ok := c.ids.known[borrowed]; ok {
		return id
	}
	id := strings.Clone(borrowed)
	if len(c.ids.known) < maxRules {
		c.ids.known[id] = id
	}
	return id
}

// requests encodes tasks as a headgate.v1.BatchRateLimitRequest.
type requests []*task

func (r requests) MarshalWire(dst []byte) ([]byte, error) {
	for _, t := range r {
		dst = wirev1.AppendRequest(dst, &t.request)
	}
	return dst, nil
}

func (requests) UnmarshalWire([]byte) error { return errors.ErrUnsupported }

var (
	decisionPool = sync.Pool{New: func() any { return new(wirev1.RateLimitResponse) }}
	batchPool    = sync.Pool{New: func() any { return new(wirev1.BatchRateLimitResponse) }}
)

// sendRequests sends requests in one call.
func (c *Client) sendRequests(ctx context.Context, stream *callStream, deadline time.Time, batch []*task) {
	if len(batch) == 1 {
		t, m := batch[0], decisionPool.Get().(*wirev1.RateLimitResponse)
		if t.err = c.invoke(ctx, deadline, headgatev1.RateLimiter_RateLimit_FullMethodName, &t.request, m); t.err == nil {
			t.decision = newDecision(m, c.ruleID(m.Rule))
		}
		decisionPool.Put(m)
		return
	}
	m := batchPool.Get().(*wirev1.BatchRateLimitResponse)
	defer batchPool.Put(m)
	m.Max = len(batch)
	err := c.callBatch(ctx, stream, deadline, requests(batch), m)
	if err == nil && (len(m.Responses) != len(batch) || m.TooMany) {
		err = status.Error(codes.Internal, "the number of results in the service's response is wrong")
		if stream != nil {
			stream.close() // further responses of this call may arrive on the stream
		}
	}
	var rule string
	for i, t := range batch {
		if t.err = err; err != nil {
			continue
		}
		r := &m.Responses[i]
		if r.ErrorCode != 0 {
			t.err = status.Error(codes.Code(r.ErrorCode), strings.Clone(r.ErrorMessage))
			continue
		}
		if r.Rule != rule { // decisions in a batch often have the same rule
			rule = c.ruleID(r.Rule)
		}
		t.decision = newDecision(r, rule)
	}
}

// invoke makes a unary call.
func (c *Client) invoke(ctx context.Context, deadline time.Time, method string, request, response any) error {
	ctx, end := context.WithDeadline(ctx, deadline)
	defer end()
	return c.conn.Invoke(ctx, method, request, response)
}

// callBatch sends a batch on a stream. It makes a unary call instead if stream is nil, if the service does not
// support such streams, or if a closing server has not read the batch.
func (c *Client) callBatch(
	ctx context.Context, stream *callStream, deadline time.Time, request requests, response *wirev1.BatchRateLimitResponse,
) error {
	if stream != nil && (c.noStreamsUntil.Load() == 0 || int64(time.Since(c.created)) > c.noStreamsUntil.Load()) {
		err := stream.do(ctx, c.conn, deadline, request, response)
		switch {
		case status.Code(err) == codes.Unimplemented: // an older service, which may be upgraded: try again later
			c.noStreamsUntil.Store(int64(time.Since(c.created) + c.streamRetry))
		case !errors.Is(err, errUnread):
			return err
		}
	}
	return c.invoke(ctx, deadline, headgatev1.RateLimiter_BatchRateLimit_FullMethodName, request, response)
}

// releaseLost releases the slots of a task whose caller stopped waiting.
func (c *Client) releaseLost(t *task) {
	if t.err != nil || t.decision.Lease == "" {
		return
	}
	lease := t.decision.Lease
	c.releases.Go(func() {
		if err := c.Release(context.Background(), lease); err != nil {
			c.options.Logger.Debug("cannot release a slot whose caller stopped waiting; it expires later", "err", err)
		}
	})
}

// Release releases the slots of a Decision. Releasing them twice is no error.
func (c *Client) Release(ctx context.Context, lease string) error {
	request := headgatev1.ReleaseRequest{LeaseId: lease}
	err := c.invokeTwice(ctx, headgatev1.RateLimiter_Release_FullMethodName, &request, new(headgatev1.ReleaseResponse))
	if err != nil {
		err = fmt.Errorf("client: release: %w", err)
	}
	return err
}

// Renew holds the slots of a Decision for another TTL, and takes expired slots again if slots are free. It returns
// whether the slots are held, and their TTL. Call Renew again before the TTL has passed, until the request has been
// served, and not after Release. After an error it is unknown whether the slots are held: call Renew again.
func (c *Client) Renew(ctx context.Context, lease string) (held bool, ttl time.Duration, err error) {
	request, response := headgatev1.RenewRequest{LeaseId: lease}, headgatev1.RenewResponse{}
	err = c.invokeTwice(ctx, headgatev1.RateLimiter_Renew_FullMethodName, &request, &response)
	if err != nil {
		err = fmt.Errorf("client: renew: %w", err)
	}
	return response.Held, millis(response.TtlMs), err
}

// invokeTwice makes an idempotent call, and repeats it once if the connection broke.
func (c *Client) invokeTwice(ctx context.Context, method string, request, response proto.Message) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Deadline)
	defer cancel()
	err := c.conn.Invoke(ctx, method, request, response)
	if connectionBroke(err) && ctx.Err() == nil {
		err = c.conn.Invoke(ctx, method, request, response)
	}
	return err
}
