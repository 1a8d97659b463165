package client

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
	"github.com/headgate/headgate/internal/renewal"
)

// What TransportOptions hold unless told otherwise.
const (
	DefaultMaxWait  = 30 * time.Second
	DefaultMaxPause = time.Hour
	DefaultMaxKeys  = 1024
)

// TransportOptions are the settings of a Transport. The zero TransportOptions are good: they keep to what servers say.
type TransportOptions struct {
	// Base sends the requests. Default http.DefaultTransport.
	Base http.RoundTripper
	// Limiter and Limit are the limit to keep to whatever servers say, for each key. The limiter may be one in memory, such as
	// a memstore.Store, or one that several programs share, so that they have one budget. Default none.
	Limiter headgate.Limiter
	Limit   headgate.Limit
	// Key names the budget that a request comes under; "" for one that comes under none. Default its scheme and host.
	Key func(*http.Request) string
	// MaxWait is how long a request may be held until it may be sent; its context may end it sooner. One that would be held
	// for longer fails at once. Default DefaultMaxWait. Below zero none is held.
	MaxWait time.Duration
	// MaxPause is how long a server may silence us, whatever it says. Default DefaultMaxPause.
	MaxPause time.Duration
	// MaxKeys is of how many keys it is remembered what servers said. Others are sent as if nothing had been said. Default
	// DefaultMaxKeys.
	MaxKeys int
}

// ErrLimited is wrapped by the error of a request that was not sent because of a limit.
var ErrLimited = errors.New("client: not sent: over the limit")

// A LimitedError says why a request was not sent. It wraps ErrLimited.
type LimitedError struct {
	// Key names the budget.
	Key string
	// Server tells that it was the server that said so, and not the limit of the TransportOptions.
	Server bool
	// RetryAfter is when it may be sent, as far as is known now: headgate.Never if that is of no use.
	RetryAfter time.Duration
}

func (e *LimitedError) Error() string {
	whose := "our own limit"
	if e.Server {
		whose = "what the server said"
	}
	if e.RetryAfter == headgate.Never {
		return fmt.Sprintf("%v: %s by %s: never", ErrLimited, e.Key, whose)
	}
	return fmt.Sprintf("%v: %s by %s: try again in %s", ErrLimited, e.Key, whose, e.RetryAfter)
}

// Unwrap returns ErrLimited.
func (*LimitedError) Unwrap() error { return ErrLimited }

// A Transport is an http.RoundTripper that keeps to limits before it sends. Make one with NewTransport, and share it: all
// requests through it have one budget a key. It is safe for concurrent use.
//
// First it keeps to the limit of its options. Then it keeps to what the server has said in its last answers: it counts down
// what RateLimit or X-RateLimit-Remaining says is left, and when nothing is, or the server said Retry-After with 429 or 503,
// it holds requests until the time that was given. After a pause one request goes first, and the others follow if it is
// served. Requests are held for MaxWait at most, or fail at once with a *LimitedError.
//
// It sends no request twice: whether to try again after a 429 is for the caller to say.
type Transport struct {
	options TransportOptions

	mu    sync.Mutex
	known map[string]*budget
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns a Transport. The error says what is wrong with the options.
func NewTransport(o TransportOptions) (*Transport, error) {
	if (o.Limiter == nil) != (o.Limit == headgate.Limit{}) {
		return nil, errors.New("client: Limiter and Limit: want both or none")
	}
	if o.Limiter != nil {
		if err := o.Limit.Validate(); err != nil {
			return nil, fmt.Errorf("client: %w", err)
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
		return nil, fmt.Errorf("client: MaxPause %s: want at least 1s, or 0 for %s", o.MaxPause, DefaultMaxPause)
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	if o.MaxKeys < 1 {
		return nil, fmt.Errorf("client: MaxKeys %d: want at least 1, or 0 for %d", o.MaxKeys, DefaultMaxKeys)
	}
	return &Transport{options: o, known: make(map[string]*budget)}, nil
}

// hostKey names the budget of a request by where it goes.
func hostKey(r *http.Request) string { return r.URL.Scheme + "://" + strings.ToLower(r.URL.Host) }

// RoundTrip sends a request when the limits allow it.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	key := t.options.Key(r)
	if key == "" {
		return t.options.Base.RoundTrip(r)
	}
	start := time.Now()
	held, err := t.own(r.Context(), key, start)
	if err == nil {
		var b *budget
		if b, err = t.enter(r.Context(), key, start); err == nil {
			return t.send(r, b, held)
		}
		held.giveBack()
	}
	if r.Body != nil {
		_ = r.Body.Close() // a RoundTripper must, and there is nothing to do about what it says
	}
	return nil, err
}

// CloseIdleConnections closes those of the base that are not in use, if it has any. http.Client's calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.options.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// send sends a request that may be sent.
func (t *Transport) send(r *http.Request, b *budget, held *place) (*http.Response, error) {
	sent := time.Now()
	response, err := t.options.Base.RoundTrip(r)
	if err != nil {
		t.leave(b, sent, nil)
		held.giveBackPlace()
		return nil, err
	}
	t.leave(b, sent, t.read(response, time.Now()))
	held.until(response)
	return response, nil
}

// A place is what a request has taken of our own limit.
type place struct {
	limiter headgate.Limiter
	check   headgate.Check
	receipt headgate.Receipt
	renewal renewal.Renewal // of a slot under a concurrency limit
	once    sync.Once
}

// keep renews a slot under a concurrency limit until it is given back.
func (p *place) keep() {
	if p.check.Limit.Algorithm != headgate.Concurrency || p.receipt.Units == 0 {
		return
	}
	ttl := p.check.Limit.TTL
	if ttl == 0 {
		ttl = headgate.DefaultTTL
	}
	p.renewal.Start(ttl, func() {
		ctx, end := context.WithTimeout(context.Background(), time.Second)
		defer end()
		_, _ = p.limiter.Renew(ctx, p.check, p.receipt) // it is tried again before the slot expires
	})
}

// own takes from our own limit, as soon as there is something to take.
func (t *Transport) own(ctx context.Context, key string, start time.Time) (*place, error) {
	if t.options.Limiter == nil {
		return nil, nil
	}
	p := &place{limiter: t.options.Limiter, check: headgate.Check{Key: key, Limit: t.options.Limit, Cost: 1}}
	if len(key) > headgate.MaxKeyBytes {
		return nil, fmt.Errorf("client: a key of %d bytes: want at most %d", len(key), headgate.MaxKeyBytes)
	}
	for {
		d, err := p.limiter.Take(ctx, p.check)
		if err != nil {
			return nil, fmt.Errorf("client: our own limit: %w", err)
		}
		if d.Allowed {
			p.receipt = d.Receipt
			if err := t.hold(ctx, start, d.Delay, &LimitedError{Key: key, RetryAfter: d.Delay}, nil); err != nil {
				p.receipt = p.receipt.Delayed(d.Delay)
				p.giveBack()
				return nil, err
			}
			p.keep()
			return p, nil
		}
		wait := max(d.RetryAfter, time.Millisecond) // whatever the limiter says, it is not asked again at once
		if t.options.Limit.Algorithm == headgate.Concurrency {
			wait = min(wait, 10*time.Millisecond) // who holds a place may be done long before it would be taken from him
		}
		if err := t.hold(ctx, start, wait, &LimitedError{Key: key, RetryAfter: d.RetryAfter}, nil); err != nil {
			return nil, err
		}
	}
}

// hold waits, unless that is longer than the request may be held, or until something has changed.
func (t *Transport) hold(ctx context.Context, start time.Time, d time.Duration, otherwise error, changed <-chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d <= 0 {
		return nil
	}
	left := t.options.MaxWait - time.Since(start)
	if by, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(by))
	}
	if d > left {
		return otherwise
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

// giveBack returns what was taken for a request that was not sent.
func (p *place) giveBack() {
	if p == nil || p.receipt.Units == 0 {
		return
	}
	p.once.Do(func() {
		p.renewal.Stop()
		ctx, end := context.WithTimeout(context.Background(), time.Second)
		defer end()
		_ = p.limiter.Give(ctx, p.check, p.receipt) // units that are not given back come back by themselves
	})
}

// giveBackPlace releases a place under a concurrency limit; units of other limits are spent.
func (p *place) giveBackPlace() {
	if p != nil && p.check.Limit.Algorithm == headgate.Concurrency {
		p.giveBack()
	}
}

// until keeps a place under a concurrency limit until the response has been read.
func (p *place) until(r *http.Response) {
	if p == nil || p.check.Limit.Algorithm != headgate.Concurrency {
		return
	}
	if r.Body == nil || r.Body == http.NoBody {
		p.giveBack()
		return
	}
	held := &body{ReadCloser: r.Body, place: p}
	r.Body = held
	if w, ok := held.ReadCloser.(io.Writer); ok { // of a connection that speaks another protocol from here on
		r.Body = struct {
			*body
			io.Writer
		}{held, w}
	}
}

// A body releases a place when it is at its end.
type body struct {
	io.ReadCloser
	place *place
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.place.giveBack()
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.place.giveBack()
	return err
}
