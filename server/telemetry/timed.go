package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
)

// A Remote is a store on other hosts. It has the methods that package guard requires.
type Remote interface {
	headgate.Limiter
	// Shard returns the shard that decides a check.
	Shard(c headgate.Check) string
	// Grant takes units in advance, for a lease.
	Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error)
	// LastSent and LastReceived return the times when data was last sent to a shard and received from it. HasUnread
	// reports whether the shard has sent data that was not read yet.
	LastSent(shard string) time.Time
	LastReceived(shard string) time.Time
	HasUnread(shard string) bool
	// Probe checks whether a shard works.
	Probe(ctx context.Context, shard string) error
}

// Timed returns a store that passes all calls to inner and measures them. name is the value of the label store. A guard
// should use the returned store instead of inner.
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
	opPeek
	opCharge
	opGive
	opRenew
	opReset
	opGrant
	numOps
)

var opNames = [numOps]string{
	opTake: "take", opTakeAll: "take_all", opPeek: "peek", opCharge: "charge", opGive: "give", opRenew: "renew",
	opReset: "reset", opGrant: "grant",
}

// timed measures the calls of a Remote.
type timed struct {
	Remote
	durations [numOps]prometheus.Observer
	errors    [numOps]prometheus.Counter
}

var _ Remote = (*timed)(nil)

// record records a call of the store that began at start.
func (t *timed) record(o op, start time.Time, err *error) {
	t.durations[o].Observe(time.Since(start).Seconds())
	if *err != nil {
		t.errors[o].Inc()
	}
}

func (t *timed) Take(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	defer t.record(opTake, time.Now(), &err)
	return t.Remote.Take(ctx, c)
}

func (t *timed) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) (decisions []headgate.Decision, err error) {
	defer t.record(opTakeAll, time.Now(), &err)
	return t.Remote.TakeAll(ctx, checks, dst)
}

func (t *timed) Peek(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	defer t.record(opPeek, time.Now(), &err)
	return t.Remote.Peek(ctx, c)
}

func (t *timed) Charge(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	defer t.record(opCharge, time.Now(), &err)
	return t.Remote.Charge(ctx, c)
}

func (t *timed) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) (err error) {
	defer t.record(opGive, time.Now(), &err)
	return t.Remote.Give(ctx, c, r)
}

func (t *timed) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (renewed bool, err error) {
	defer t.record(opRenew, time.Now(), &err)
	return t.Remote.Renew(ctx, c, r)
}

func (t *timed) Grant(ctx context.Context, c headgate.Check, want, share int64) (d headgate.Decision, err error) {
	defer t.record(opGrant, time.Now(), &err)
	return t.Remote.Grant(ctx, c, want, share)
}

func (t *timed) Reset(ctx context.Context, c headgate.Check) (err error) {
	defer t.record(opReset, time.Now(), &err)
	return t.Remote.Reset(ctx, c)
}
