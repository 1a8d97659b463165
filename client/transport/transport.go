package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/internal/renewal"
)

// Defaults of Options.
const (
	DefaultMaxWait  = 30 * time.Second
	DefaultMaxPause = time.Hour
	DefaultMaxKeys  = 1024
)

// Options configure a Transport. With the zero value, a Transport respects only the limits in servers' responses.
type Options struct {
	// Base sends the requests. Default http.DefaultTransport.
	Base http.RoundTripper
	// Limiter and Limit set a limit for each key, in addition to the limits in servers' responses. The limiter may be in
	// memory, such as a memstore.Store. Several programs that use the same Redis store share the limit. Default none.
	Limiter headgate.Limiter
	Limit   headgate.Limit
	// Key returns the key that a request is counted under. Requests with the key "" are not limited. Default is the
	// scheme and host of the URL.
	Key func(*http.Request) string
	// MaxWait is the longest delay of a request. A request that would be delayed for longer fails immediately. The context
	// of the request can end the delay sooner. Default DefaultMaxWait; negative for no delays.
	MaxWait time.Duration
	// MaxPause is the longest time for which no requests are sent because of a Retry-After or a reset time in a response.
	// Default DefaultMaxPause.
	MaxPause time.Duration
	// MaxKeys is the number of keys for which the limits in responses are remembered. For other keys, these limits are
	// ignored. Default DefaultMaxKeys.
	MaxKeys int
}

// ErrLimited is wrapped by the error of a request that was not sent because of a limit.
var ErrLimited = errors.New("transport: not sent: over the limit")

// A LimitedError is the error of a request that was not sent. It wraps ErrLimited.
type LimitedError struct {
	// Key is the key that the request was counted under.
	Key string
	// Server is true for a limit in the server's responses, and false for Options.Limit.
	Server bool
	// RetryAfter is the expected time until the request may be sent. It is headgate.Never if a retry is useless.
	RetryAfter time.Duration
}

func (e *LimitedError) Error() string {
	limit := "the configured limit"
	if e.Server {
		limit = "the server's limit"
	}
	if e.RetryAfter == headgate.Never {
		return fmt.Sprintf("%v: %s: %s never allows the request", ErrLimited, e.Key, limit)
	}
	return fmt.Sprintf("%v: %s: %s allows the request in %s", ErrLimited, e.Key, limit, e.RetryAfter)
}

// Unwrap returns ErrLimited.
func (*LimitedError) Unwrap() error { return ErrLimited }

// A Transport is an http.RoundTripper that respects limits before it sends a request. Create one with New, and share
// it: it limits all requests that are sent through it. It is safe for concurrent use.
//
// A Transport applies Options.Limit first, then the limits in the server's responses. It counts down the remaining
// units that RateLimit or X-RateLimit-Remaining reported. If none remain, it delays requests until the reset. If the
// server refused a request with 429 or 503, it delays requests for the time in Retry-After. After such a pause, it
// sends one request as a probe, and the others once the server has accepted a request. A request that would be delayed
// for longer than MaxWait fails immediately with a *LimitedError.
//
// A Transport sends no request twice: callers decide whether to retry after a 429.
type Transport struct {
	options Options

	mu      sync.Mutex
	budgets map[string]*budget // the limits that responses have reported, by key
}

var _ http.RoundTripper = (*Transport)(nil)

// New returns a Transport. The error describes invalid options.
func New(o Options) (*Transport, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Transport{options: o, budgets: make(map[string]*budget)}, nil
}

// validate checks the options and sets defaults.
func (o *Options) validate() error {
	if (o.Limiter == nil) != (o.Limit == headgate.Limit{}) {
		return errors.New("transport: Limiter and Limit: want both or none")
	}
	if o.Limiter != nil {
		if err := o.Limit.Validate(); err != nil {
			return fmt.Errorf("transport: %w", err)
		}
	}
	if o.Base == nil {
		o.Base = http.DefaultTransport
	}
	if o.Key == nil {
		o.Key = hostKey
	}
	if o.MaxWait == 0 {
		o.MaxWait = DefaultMaxWait
	}
	if o.MaxPause == 0 {
		o.MaxPause = DefaultMaxPause
	}
	if o.MaxPause < time.Second {
		return fmt.Errorf("transport: MaxPause %s: want at least 1s, or 0 for %s", o.MaxPause, DefaultMaxPause)
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	if o.MaxKeys < 1 {
		return fmt.Errorf("transport: MaxKeys %d: want at least 1, or 0 for %d", o.MaxKeys, DefaultMaxKeys)
	}
	return nil
}

// hostKey returns the scheme and host of a request as its key.
func hostKey(r *http.Request) string { return r.URL.Scheme + "://" + strings.ToLower(r.URL.Host) }

// RoundTrip sends a request when the limits allow it.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	key := t.options.Key(r)
	if key == "" {
		return t.options.Base.RoundTrip(r)
	}
	b, units, err := t.admit(r.Context(), key)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // required of a RoundTripper; its error has no consequence
		}
		return nil, err
	}
	return t.send(r, b, units)
}

// admit waits until a request may be sent: first until Options.Limit allows it, then until the server's limits do.
func (t *Transport) admit(ctx context.Context, key string) (*budget, *takenUnits, error) {
	start := time.Now()
	units, err := t.takeConfigured(ctx, key, start)
	if err != nil {
		return nil, nil, err
	}
	b, err := t.awaitBudget(ctx, key, start)
	if err != nil {
		units.giveBack()
		return nil, nil, err
	}
	return b, units, nil
}

// An idleCloser is a RoundTripper that keeps idle connections, such as *http.Transport.
type idleCloser interface{ CloseIdleConnections() }

var _ idleCloser = (*Transport)(nil)

// CloseIdleConnections closes idle connections of the base, if it has any. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.options.Base.(idleCloser); ok {
		base.CloseIdleConnections()
	}
}

// send sends a request that the limits allow.
func (t *Transport) send(r *http.Request, b *budget, units *takenUnits) (*http.Response, error) {
	sent := time.Now()
	response, err := t.options.Base.RoundTrip(r)
	if err != nil {
		t.requestDone(b, sent, nil)
		units.releaseSlot()
		return nil, err
	}
	t.requestDone(b, sent, t.readLimits(response, time.Now()))
	units.releaseSlotAfterBody(response)
	return response, nil
}

// takenUnits are the units that a request has taken from Options.Limit. A nil *takenUnits is valid: it has no units.
type takenUnits struct {
	limiter headgate.Limiter
	check   headgate.Check
	receipt headgate.Receipt
	renewal renewal.Renewal // renews the slot of a concurrency limit
	once    sync.Once
}

// startRenewal renews a slot of a concurrency limit until it is released. It does nothing for other limits.
func (u *takenUnits) startRenewal() {
	if u.check.Limit.Algorithm != headgate.Concurrency || u.receipt.Units == 0 {
		return
	}
	ttl := u.check.Limit.TTL
	if ttl == 0 {
		ttl = headgate.DefaultTTL
	}
	u.renewal.Start(clock.System, ttl, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = u.limiter.Renew(ctx, u.check, u.receipt) // after an error, the next renewal is before the slot expires
	})
}

// takeConfigured takes a unit from Options.Limit. It waits for one if necessary.
func (t *Transport) takeConfigured(ctx context.Context, key string, start time.Time) (*takenUnits, error) {
	if t.options.Limiter == nil {
		return nil, nil
	}
	u := &takenUnits{limiter: t.options.Limiter, check: headgate.Check{Key: key, Limit: t.options.Limit, Cost: 1}}
	if len(key) > headgate.MaxKeyBytes {
		return nil, fmt.Errorf("transport: a key of %d bytes: want at most %d", len(key), headgate.MaxKeyBytes)
	}
	for {
		d, err := u.limiter.Take(ctx, u.check)
		if err != nil {
			return nil, fmt.Errorf("transport: configured limit: %w", err)
		}
		if d.Allowed {
			u.receipt = d.Receipt
			w := wait{start: start, duration: d.Delay, tooLong: &LimitedError{Key: key, RetryAfter: d.Delay}}
			if err := t.waitFor(ctx, w); err != nil {
				u.receipt = u.receipt.Delayed(d.Delay) // no unit has drained yet, so give back all of them
				u.giveBack()
				return nil, err
			}
			u.startRenewal()
			return u, nil
		}
		duration := max(d.RetryAfter, time.Millisecond) // at least 1 ms, so that attempts do not spin
		if t.options.Limit.Algorithm == headgate.Concurrency {
			duration = min(duration, 10*time.Millisecond) // the holder of a slot may release it long before it expires
		}
		w := wait{start: start, duration: duration, tooLong: &LimitedError{Key: key, RetryAfter: d.RetryAfter}}
		if err := t.waitFor(ctx, w); err != nil {
			return nil, err
		}
	}
}

// A wait delays a request.
type wait struct {
	start    time.Time // of the request
	duration time.Duration
	tooLong  error           // the error if the request must not be delayed for this duration
	changed  <-chan struct{} // ends the wait when it is closed; may be nil
}

// waitFor delays a request. It returns w.tooLong immediately if the wait would end later than MaxWait after the start
// of the request, or after the deadline of ctx.
func (t *Transport) waitFor(ctx context.Context, w wait) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.duration <= 0 {
		return nil
	}
	maxWait := t.options.MaxWait - time.Since(w.start)
	if deadline, ok := ctx.Deadline(); ok {
		maxWait = min(maxWait, time.Until(deadline))
	}
	if w.duration > maxWait {
		return w.tooLong
	}
	timer := time.NewTimer(w.duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-w.changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// giveBack returns the units to the limiter. More calls do nothing.
func (u *takenUnits) giveBack() {
	if u == nil || u.receipt.Units == 0 {
		return
	}
	u.once.Do(func() {
		u.renewal.Stop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = u.limiter.Give(ctx, u.check, u.receipt) // after an error, the limit refills or the slot expires
	})
}

// releaseSlot releases the slot of a concurrency limit. Units of other limits stay consumed.
func (u *takenUnits) releaseSlot() {
	if u != nil && u.check.Limit.Algorithm == headgate.Concurrency {
		u.giveBack()
	}
}

// releaseSlotAfterBody releases the slot of a concurrency limit when the body of the response has been read or closed.
func (u *takenUnits) releaseSlotAfterBody(r *http.Response) {
	if u == nil || u.check.Limit.Algorithm != headgate.Concurrency {
		return
	}
	if r.Body == nil || r.Body == http.NoBody {
		u.giveBack()
		return
	}
	releasing := &body{ReadCloser: r.Body, units: u}
	r.Body = releasing
	if w, ok := releasing.ReadCloser.(io.Writer); ok { // the connection was upgraded to another protocol
		r.Body = struct {
			*body
			io.Writer
		}{releasing, w}
	}
}

// A body is the body of a response. It releases a slot when it ends or is closed.
type body struct {
	io.ReadCloser
	units *takenUnits
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.units.giveBack()
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.units.giveBack()
	return err
}
