// Package logins counts wrong tokens by address, over all listeners. It refuses tokens of addresses that have sent too
// many wrong ones.
package logins

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// DefaultLimit is the default of Options.Limit.
var DefaultLimit = headgate.PerMinute(10)

// maxBytes limits the memory for addresses.
const maxBytes = 8 << 20

// Options are the settings of a Throttle. The zero value is usable.
type Options struct {
	// Limit is the limit on wrong tokens of one address. Default DefaultLimit.
	Limit headgate.Limit
	// Logger logs wrong tokens, at most one line per second. Default slog.Default().
	Logger *slog.Logger
}

// A Throttle counts the wrong tokens of addresses. All listeners of a process that accept tokens share one Throttle, so
// that a client gets no more guesses by using several listeners. It is safe for concurrent use.
type Throttle struct {
	options Options
	store   *memstore.Store
	started time.Time

	// refusedUntil is when the last refusal ends, as a duration since started. Before that time, Denied must look up each
	// address. If it is 0, no address is refused, and Denied costs only one load.
	refusedUntil atomic.Int64

	mu         sync.Mutex
	failed     int64
	recent     []Failure // oldest first
	lastLogged time.Time // time of the last log line
	unlogged   int64     // failures since the last log line
}

// A Failure is a login that failed.
type Failure struct {
	Time time.Time `json:"time"`
	// From is the client's address. It is empty for a Unix socket.
	From string `json:"from"`
	// Listener is the name of the listener: admin, api, grpc or resp.
	Listener string `json:"listener,omitempty"`
	// Denied reports whether the token was refused because the address had failed too often.
	Denied bool `json:"denied,omitempty"`
}

// A Kind is the kind of a wrong token. Kinds are counted separately: the value is a prefix of the counter key.
type Kind string

const (
	// Guess is a token that may be a guess.
	Guess Kind = "login "
	// Revoked is a token that has too many random bits for a guess, so it was probably valid earlier. It is counted
	// separately, so that a node with an old token does not lock out operators on the same host.
	Revoked Kind = "old login "
)

// New returns a Throttle. It must be closed.
func New(o Options) (*Throttle, error) {
	if o.Limit == (headgate.Limit{}) {
		o.Limit = DefaultLimit
	}
	if err := o.Limit.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	store, err := memstore.New(memstore.Options{MaxBytes: maxBytes})
	if err != nil {
		return nil, err
	}
	return &Throttle{options: o, store: store, started: time.Now()}, nil
}

// Close frees the Throttle's memory.
func (t *Throttle) Close() error { return t.store.Close() }

// Denied returns how long tokens from an address are refused, or 0 if they are not. It must be called before a token is
// compared, so that a refused address cannot find out whether its guess was right.
func (t *Throttle) Denied(ctx context.Context, listener string, kind Kind, from netip.Addr) time.Duration {
	until := t.refusedUntil.Load()
	if until == 0 {
		return 0
	}
	if int64(time.Since(t.started)) > until {
		t.refusedUntil.CompareAndSwap(until, 0)
		return 0
	}
	d, err := t.store.Peek(ctx, headgate.Check{Key: key(kind, from), Limit: t.options.Limit})
	if err == nil && d.Remaining >= 1 {
		return 0
	}
	retry := time.Second
	if err == nil {
		retry = max(retry, d.RetryAfter, d.ResetAfter/time.Duration(max(d.Limit, 1)))
	}
	t.record(Failure{From: addrString(from), Listener: listener, Denied: true}, err)
	return retry
}

// Failed counts a wrong token. It returns how long tokens from the address are refused from now on, or 0 if they are
// not.
func (t *Throttle) Failed(ctx context.Context, listener string, kind Kind, from netip.Addr) time.Duration {
	d, err := t.store.Take(ctx, headgate.Check{Key: key(kind, from), Limit: t.options.Limit, Cost: 1})
	denied := err != nil || !d.Allowed
	if err == nil && d.Remaining < 1 {
		t.refuseUntil(time.Since(t.started) + d.ResetAfter)
	}
	t.record(Failure{From: addrString(from), Listener: listener, Denied: denied}, err)
	if !denied {
		return 0
	}
	return max(d.RetryAfter, time.Second)
}

func (t *Throttle) refuseUntil(end time.Duration) {
	for {
		before := t.refusedUntil.Load()
		if before >= int64(end) || t.refusedUntil.CompareAndSwap(before, int64(end)) {
			return
		}
	}
}

// maxRecent is the maximum number of failures in a Report.
const maxRecent = 100

// A Report has the failed logins since the process started, on all listeners.
type Report struct {
	Count  int64     `json:"count"`
	Recent []Failure `json:"recent"` // the latest, oldest first
}

// Report returns the failed logins.
func (t *Throttle) Report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Report{t.failed, append([]Failure{}, t.recent...)}
}

// logEvery is the interval between log lines.
const logEvery = time.Second

func (t *Throttle) record(f Failure, err error) {
	now := time.Now()
	f.Time = now.UTC()
	t.mu.Lock()
	t.failed++
	if t.recent = append(t.recent, f); len(t.recent) > maxRecent {
		t.recent = slices.Delete(t.recent, 0, 1)
	}
	if now.Sub(t.lastLogged) < logEvery {
		t.unlogged++
		t.mu.Unlock()
		return
	}
	missed := t.unlogged
	t.lastLogged, t.unlogged = now, 0
	t.mu.Unlock()
	args := []any{"listener", f.Listener, "from", f.From, "more", missed}
	switch {
	case err != nil:
		t.options.Logger.Error("wrong tokens cannot be counted, refusing the token", append(args, "err", err)...)
	case f.Denied:
		t.options.Logger.Warn("too many wrong tokens from an address, refusing its tokens", args...)
	default:
		t.options.Logger.Warn("wrong token", args...)
	}
}

// key returns the counter key of an address. For IPv6, it is the key of the /64 network. All clients of Unix sockets
// have the same key.
func key(kind Kind, from netip.Addr) string {
	from = from.Unmap()
	if from.Is6() {
		if p, err := from.WithZone("").Prefix(64); err == nil {
			return string(kind) + p.String()
		}
	}
	return string(kind) + addrString(from)
}

func addrString(from netip.Addr) string {
	if !from.IsValid() {
		return ""
	}
	return from.String()
}
