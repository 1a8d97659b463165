package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
)

// A Remote is a store on other hosts, as a guard knows it.
type Remote interface {
	headgate.Limiter
	// Shard says on which of its shards a check is decided.
	Shard(c headgate.Check) string
	// Grant takes units ahead of their use.
	Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error)
	// Sent and Heard say when something was last sent to a shard and read from it, and Unread whether it has sent something
	// that was not read yet.
	Sent(shard string) time.Time
	Heard(shard string) time.Time
	Unread(shard string) bool
	// Probe says how a shard is.
	Probe(ctx context.Context, shard string) error
}

// Timed returns the same store, with each of its calls measured under that name. Put it between a guard and its store. What the
// store promises of contexts is promised still.
func (m *Metrics) Timed(name string, inner Remote) Remote {
	t := &timed{Remote: inner}
	for op, word := range opWords {
		t.took[op] = m.store.WithLabelValues(name, word)
		t.failed[op] = m.failed.WithLabelValues(name, word)
	}
	if _, ok := inner.(forgetter); ok {
		return forgetful{t}
	}
	return t
}

// A forgetter keeps no call's context when the call has returned: a guard's Forgetter.
type forgetter interface{ ForgetsContexts() }

// A forgetful store is one that forgets contexts. Not every Remote does, so it is none of what all are asked for.
type forgetful struct{ *timed }

func (forgetful) ForgetsContexts() {}

// An op is a call of a store.
type op uint8

const (
	opTake op = iota
	opTakeAll
	opCharge
	opGive
	opRenew
	opReset
	opGrant
	ops // how many there are
)

var opWords = [ops]string{opTake: "take", opTakeAll: "take_all", opCharge: "charge", opGive: "give", opRenew: "renew", opReset: "reset", opGrant: "grant"}

type timed struct {
	Remote
	took   [ops]prometheus.Observer
	failed [ops]prometheus.Counter
}

var (
	_ Remote    = (*timed)(nil)
	_ forgetter = forgetful{}
)

func (t *timed) done(o op, begun time.Time, err error) {
	t.took[o].Observe(time.Since(begun).Seconds())
	if err != nil {
		t.failed[o].Inc()
	}
}

// Take measures that of the store.
func (t *timed) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	begun := time.Now()
	d, err := t.Remote.Take(ctx, c)
	t.done(opTake, begun, err)
	return d, err
}

// TakeAll measures that of the store.
func (t *timed) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	begun := time.Now()
	dst, err := t.Remote.TakeAll(ctx, checks, dst)
	t.done(opTakeAll, begun, err)
	return dst, err
}

// Charge measures that of the store.
func (t *timed) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	begun := time.Now()
	d, err := t.Remote.Charge(ctx, c)
	t.done(opCharge, begun, err)
	return d, err
}

// Give measures that of the store.
func (t *timed) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	begun := time.Now()
	err := t.Remote.Give(ctx, c, r)
	t.done(opGive, begun, err)
	return err
}

// Renew measures that of the store.
func (t *timed) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	begun := time.Now()
	held, err := t.Remote.Renew(ctx, c, r)
	t.done(opRenew, begun, err)
	return held, err
}

// Grant measures that of the store.
func (t *timed) Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error) {
	begun := time.Now()
	d, err := t.Remote.Grant(ctx, c, want, share)
	t.done(opGrant, begun, err)
	return d, err
}

// Reset measures that of the store.
func (t *timed) Reset(ctx context.Context, c headgate.Check) error {
	begun := time.Now()
	err := t.Remote.Reset(ctx, c)
	t.done(opReset, begun, err)
	return err
}
