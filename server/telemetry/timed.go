package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
)

// A Remote is a store on other hosts, as a guard uses it.
type Remote interface {
	headgate.Limiter
	// Shard returns the shard that decides a check.
	Shard(c headgate.Check) string
	// Grant takes units ahead of their use.
	Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error)
	// LastSent and LastReceived return when something was last sent to a shard and received from it. HasUnread reports
	// whether it has sent something that was not read yet.
	LastSent(shard string) time.Time
	LastReceived(shard string) time.Time
	HasUnread(shard string) bool
	// Probe checks whether a shard works.
	Probe(ctx context.Context, shard string) error
}

// Timed returns a store whose calls are measured under that name. Use it between a guard and its store.
func (m *Metrics) Timed(name string, inner Remote) Remote {
	t := &timed{Remote: inner}
	for op, word := range opNames {
		t.durations[op] = m.storeTime.WithLabelValues(name, word)
		t.errors[op] = m.storeErrors.WithLabelValues(name, word)
	}
	return t
}

// An op is a method of a store.
type op uint8

const (
	opTake op = iota
	opTakeAll
	opCharge
	opGive
	opRenew
	opReset
	opGrant
	ops // the number of ops
)

var opNames = [ops]string{
	opTake: "take", opTakeAll: "take_all", opCharge: "charge", opGive: "give", opRenew: "renew",
	opReset: "reset", opGrant: "grant",
}

type timed struct {
	Remote
	durations [ops]prometheus.Observer
	errors    [ops]prometheus.Counter
}

var _ Remote = (*timed)(nil)

func (t *timed) record(o op, begun time.Time, err error) {
	t.durations[o].Observe(time.Since(begun).Seconds())
	if err != nil {
		t.errors[o].Inc()
	}
}

// Take measures Take of the store.
func (t *timed) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	begun := time.Now()
	d, err := t.Remote.Take(ctx, c)
	t.record(opTake, begun, err)
	return d, err
}

// TakeAll measures TakeAll of the store.
func (t *timed) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	begun := time.Now()
	dst, err := t.Remote.TakeAll(ctx, checks, dst)
	t.record(opTakeAll, begun, err)
	return dst, err
}

// Charge measures Charge of the store.
func (t *timed) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	begun := time.Now()
	d, err := t.Remote.Charge(ctx, c)
	t.record(opCharge, begun, err)
	return d, err
}

// Give measures Give of the store.
func (t *timed) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	begun := time.Now()
	err := t.Remote.Give(ctx, c, r)
	t.record(opGive, begun, err)
	return err
}

// Renew measures Renew of the store.
func (t *timed) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	begun := time.Now()
	held, err := t.Remote.Renew(ctx, c, r)
	t.record(opRenew, begun, err)
	return held, err
}

// Grant measures Grant of the store.
func (t *timed) Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error) {
	begun := time.Now()
	d, err := t.Remote.Grant(ctx, c, want, share)
	t.record(opGrant, begun, err)
	return d, err
}

// Reset measures Reset of the store.
func (t *timed) Reset(ctx context.Context, c headgate.Check) error {
	begun := time.Now()
	err := t.Remote.Reset(ctx, c)
	t.record(opReset, begun, err)
	return err
}
