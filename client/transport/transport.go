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

// Options configure a Transport. With the zero value, it respects only the limits in servers' responses.
type Options struct {
	// Base sends the requests. Default http.DefaultTransport.
	Base http.RoundTripper
	// Limiter and Limit are a limit per key, independent of servers' responses. The limiter may be in memory, such as a
	// memstore.Store, or shared by several programs, which then have one budget. Default none.
	Limiter headgate.Limiter
	Limit   headgate.Limit
	// Key returns the key of a request's budget; "" for none. Default its scheme and host.
	Key func(*http.Request) string
	// MaxWait limits how long a request is delayed; its context may end the delay sooner. A request that would be delayed
	// for longer fails at once. Default DefaultMaxWait; negative for no delays.
	MaxWait time.Duration
	// MaxPause limits the pause that a server can request. Default DefaultMaxPause.
	MaxPause time.Duration
	// MaxKeys limits the number of keys whose limits are remembered. For other keys, the limits in responses are ignored.
	// Default DefaultMaxKeys.
	MaxKeys int
}

// ErrLimited is wrapped by the error of a request that was not sent because of a limit.
var ErrLimited = errors.New("transport: not sent: over the limit")

// A LimitedError is the error of a request that was not sent. It wraps ErrLimited.
type LimitedError struct {
	// Key is the key of the budget.
	Key string
	// Server reports whether the limit is the server's, and not that of the Options.
	Server bool
	// RetryAfter is the time until the request may be sent, as far as is known; headgate.Never if a retry is useless.
	RetryAfter time.Duration
}

func (e *LimitedError) Error() string {
	limitOwner := "our own limit"
	if e.Server {
		limitOwner = "the server's limit"
	}
	if e.RetryAfter == headgate.Never {
		return fmt.Sprintf("%v: %s by %s: never", ErrLimited, e.Key, limitOwner)
	}
	return fmt.Sprintf("%v: %s by %s: try again in %s", ErrLimited, e.Key, limitOwner, e.RetryAfter)
}

// Unwrap returns ErrLimited.
func (*LimitedError) Unwrap() error { return ErrLimited }

// A Transport is an http.RoundTripper that respects limits before it sends. Create one with New, and share it:
// all requests through it have one budget per key. It is safe for concurrent use.
//
// First it applies the limit of its options, then the limits in the server's last responses: it counts down the rest in
// RateLimit or X-RateLimit-Remaining, and when nothing is left, or the server sent Retry-After with 429 or 503, it
// delays requests until that time. After a pause it sends one request as a probe, and the others if that is served.
// Requests are delayed for at most MaxWait, or fail at once with a *LimitedError.
//
// It sends no request twice: a retry after a 429 is up to the caller.
type Transport struct {
	options Options

	mu      sync.Mutex
	budgets map[string]*budget
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
	start := time.Now()
	units, err := t.takeOwn(r.Context(), key, start)
	if err == nil {
		var b *budget
		if b, err = t.awaitBudget(r.Context(), key, start); err == nil {
			return t.send(r, b, units)
		}
		units.giveBack()
	}
	if r.Body != nil {
		_ = r.Body.Close() // required of a RoundTripper; its error has no consequence
	}
	return nil, err
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
func (t *Transport) send(r *http.Request, b *budget, units *tokenReceipt) (*http.Response, error) {
	sent := time.Now()
	response, err := t.options.Base.RoundTrip(r)
	if err != nil {
		t.release(b, sent, nil)
		units.releaseSlot()
		return nil, err
	}
	t.release(b, sent, t.read(response, time.Now()))
	units.releaseAfter(response)
	return response, nil
}

// takenUnits are the units that a request has taken from the limit of the options. They may be nil.
type tokenReceipt struct {
	limiter headgate.Limiter
	check   headgate.Check
	receipt headgate.Receipt
	renewal renewal.Renewal // renews the slot of a concurrency limit
	once    sync.Once
}

// renewSlot renews a slot of a concurrency limit until it is released.
func (p *tokenReceipt) renewSlot() {
	if p.check.Limit.Algorithm != headgate.Concurrency || p.receipt.Units == 0 {
		return
	}
	ttl := p.check.Limit.TTL
	if ttl == 0 {
		ttl = headgate.DefaultTTL
	}
	p.renewal.Start(clock.System, ttl, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = p.limiter.Renew(ctx, p.check, p.receipt) // retried before the slot expires
	})
}

// takeOwn takes a unit from the limit of the options. It waits for one if necessary.
func (t *Transport) takeOwn(ctx context.Context, key string, start time.Time) (*tokenReceipt, error) {
	if t.options.Limiter == nil {
		return nil, nil
	}
	p := &tokenReceipt{limiter: t.options.Limiter, check: headgate.Check{Key: key, Limit: t.options.Limit, Cost: 1}}
	if len(key) > headgate.MaxKeyBytes {
		return nil, fmt.Errorf("transport: a key of %d bytes: want at most %d", len(key), headgate.MaxKeyBytes)
	}
	for {
		d, err := p.limiter.Take(ctx, p.check)
		if err != nil {
			return nil, fmt.Errorf("transport: our own limit: %w", err)
		}
		if d.Allowed {
			p.receipt = d.Receipt
			if err := t.waitFor(ctx, start, d.Delay, &LimitedError{Key: key, RetryAfter: d.Delay}, nil); err != nil {
				p.receipt = p.receipt.Delayed(d.Delay)
				p.giveBack()
				return nil, err
			}
			p.renewSlot()
			return p, nil
		}
		wait := max(d.RetryAfter, time.Millisecond) // the minimum time between two attempts
		if t.options.Limit.Algorithm == headgate.Concurrency {
			wait = min(wait, 10*time.Millisecond) // the holder of a slot may release it long before it expires
		}
		if err := t.waitFor(ctx, start, wait, &LimitedError{Key: key, RetryAfter: d.RetryAfter}, nil); err != nil {
			return nil, err
		}
	}
}

// waitFor waits for d, or until changed is closed. If d is longer than a request that began at start may be delayed, it
// returns tooLong at once.
func (t *Transport) waitFor(
	ctx context.Context, start time.Time, d time.Duration, tooLong error, changed <-chan struct{},
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d <= 0 {
		return nil
	}
	maxWait := t.options.MaxWait - time.Since(start)
	if deadline, ok := ctx.Deadline(); ok {
		maxWait = min(maxWait, time.Until(deadline))
	}
	if d > maxWait {
		return tooLong
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// giveBack returns the units to the limiter, once.
func (p *tokenReceipt) giveBack() {
	if p == nil || p.receipt.Units == 0 {
		return
	}
	p.once.Do(func() {
		p.renewal.Stop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.limiter.Give(ctx, p.check, p.receipt) // on an error, the units come back with time
	})
}

// releaseSlot releases the slot of a concurrency limit. Units of other limits stay consumed.
func (p *tokenReceipt) releaseSlot() {
	if p != nil && p.check.Limit.Algorithm == headgate.Concurrency {
		p.giveBack()
	}
}

// releaseAfter releases the slot of a concurrency limit when the response has been read or closed.
func (p *tokenReceipt) releaseAfter(r *http.Response) {
	if p == nil || p.check.Limit.Algorithm != headgate.Concurrency {
		return
	}
	if r.Body == nil || r.Body == http.NoBody {
		p.giveBack()
		return
	}
	releasing := &body{ReadCloser: r.Body, taken: p}
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
	taken *tokenReceipt
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.taken.giveBack()
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.taken.giveBack()
	return err
}
