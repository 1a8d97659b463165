package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/dchest/siphash"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fallback"
	"github.com/headgate/headgate/server/fleet/internal/lookup"
	"github.com/headgate/headgate/server/fleet/internal/peers"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

var _ Decider = (*Ledger)(nil)

// A Decider has the methods of a Ledger that decide. Limiters embed it instead of a Ledger, so that they do not export
// the other methods.
type Decider interface {
	headgate.Limiter
	BorrowsKeys() // a promise to callers; see Ledger.BorrowsKeys
}

// A Ledger counts the units of each key that this node consumed and that its peers reported, and decides by the sum.
// Packages async, gossip and region exchange its tallies, which have the total of each key, with other nodes.
//
// A decision calls no other node. It computes a hash, holds a lock for some dozens of nanoseconds, and runs one step of
// the algorithm. It allocates memory only for the record of a new key.
//
// # Consumption by peers
//
// Each node counts its own consumption and sends its total. A node that receives a larger total than before charges the
// difference to its own counter, into debt if necessary. So all counters reach the same level, and over-admission is
// repaid before more is allowed. For example, with a limit of 4/s and a burst of 4, three nodes may each admit 4 units
// before they receive updates from each other. Then each has −8 units remaining, and denies everything for 2 s.
//
// The level of a bucket is the number of consumed units that have not drained yet. While the level on a node is 0, no
// units drain there. But a peer may have consumed units during that time, which would have drained. So a node measures
// how long its level was 0. When it receives the next update, it subtracts from the update the units that would have
// drained in that time. It does not subtract units that have not drained on the peer either. Without this, two nodes
// that each use half of a limit would deny requests for a while after each update.
//
// If a limit has windows, a total counts the units of one window. An update for a past window is applied as long as
// units of that window still count under a sliding window. Under a fixed window, the part of the update above the limit
// is carried into the next window.
//
// # Implausible updates
//
// The ledger ignores totals that have decreased, totals that start in the future, and keys with an invalid limit. Since
// its last update, a peer cannot have consumed more than (MaxDebt × capacity) + 2 × the units that can drain in that
// time. A larger increase is reduced to this number. The ledger counts implausible updates and reports them.
//
// # Memory
//
// A key takes about 400 bytes, plus 96 bytes for each peer that consumed it. A key has at most [MaxPeers] peers, and a
// ledger at most LedgerOptions.MaxKeys keys. Drained keys with nothing to send are dropped gradually. If there is no
// room for a new key, the record of a key that drains soon is evicted, unless a request for that key was denied since
// its last unit drained. If no record can be evicted, the new key is refused with headgate.ErrFull.
type Ledger struct {
	options fleet.LedgerOptions
	// pulls is set if this node receives updates only for keys that it has asked for, as package async does. Then Changes
	// also returns keys that callers used without consuming anything, and tallies do not cover the time before the key's
	// record was added. In gossip, nodes receive updates for all keys.
	pulls      bool
	k0, k1     uint64 // the SipHash key that hides the keys of checks
	clock      clock.Stopwatch
	epoch      int64                        // µs since 1970 when the clock was started
	clockAhead atomic.Int64                 // µs by which the fleet's clock, which windows use, is ahead of this node's
	self       uint64                       // hash of this node, for digests; see sumAndDigest
	plans      algorithm.Cache[*quota.Plan] // limits, with the values that are calculated from them
	closed     atomic.Bool

	unreachable fallback.State // see SetUnreachable
	lookupAfter int64          // in µs; see SetLookupAfter
	lookups     lookup.Waiters

	evictedAt atomic.Int64 // uptime in ns when a record was last evicted; 0 if never

	shards   [shardCount]shard
	peers    peers.Table
	counters counters
}

// shardCount equals KeyGroups, so that a group and a shard have the same keys.
const shardCount = fleet.KeyGroups

// New returns an empty ledger of the node self. pulls is set if the node receives updates only for keys that it has
// asked for. If there are no peers, self may be the zero Peer.
func New(o fleet.LedgerOptions, self fleet.Peer, pulls bool) (*Ledger, error) {
	if err := validate(&o); err != nil {
		return nil, err
	}
	l := &Ledger{options: o, self: peers.Hash(self), pulls: pulls, clock: clock.NewStopwatch(o.Clock)}
	l.peers.KeepEnded = pulls   // an exchange may return notes of a peer from before it restarted
	l.SetLookupAfter(o.Lag / 2) // long enough for callsInLag/2 calls of Changes
	l.epoch = l.clock.Start.UnixMicro()
	sum := sha256.Sum256(append([]byte("headgate fleet key "), o.Secret...))
	l.k0, l.k1 = binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])
	for i := range l.shards {
		l.shards[i].records = make(map[tally.Key]*record)
		l.shards[i].capacity = max(1, (o.MaxKeys+shardCount-1)/shardCount)
	}
	return l, nil
}

// Close makes later calls fail with headgate.ErrClosed.
func (l *Ledger) Close() error {
	l.closed.Store(true)
	return nil
}

// BorrowsKeys is a promise to callers: a call reads the strings of a check only until it returns, and does not read
// Check.Owner.
func (l *Ledger) BorrowsKeys() {}

// Clock returns the clock, which was started with the ledger.
func (l *Ledger) Clock() clock.Stopwatch { return l.clock }

// Uptime returns the age of this ledger by its clock. Nodes send it with their tallies.
func (l *Ledger) Uptime() time.Duration { return max(0, l.clock.Elapsed()) }

// hash returns the hash of a key. The hash differs between kinds of algorithm state, because one kind cannot read the
// state of another.
func (l *Ledger) hash(key string, kind algorithm.Kind) (k tally.Key) {
	h0, h1 := siphash.Hash128(l.k0, l.k1, unsafe.Slice(unsafe.StringData(key), len(key)))
	binary.LittleEndian.PutUint64(k[:], h0)
	binary.LittleEndian.PutUint64(k[8:], h1^uint64(kind)<<56)
	return k
}

func (l *Ledger) shardOf(k *tally.Key) *shard { return &l.shards[k[0]%shardCount] }

// lockRecord locks the shard of a key, and returns the shard and the key's record, which is nil if there is none.
func (l *Ledger) lockRecord(k *tally.Key) (*shard, *record) {
	sh := l.shardOf(k)
	sh.mu.Lock()
	return sh, sh.records[*k]
}

// A moment is one reading of the clock.
type moment struct {
	uptime     time.Duration
	micros     int64 // µs since 1970, by this node's clock
	clockAhead int64 // µs by which the fleet's clock is ahead of this node's
}

func (l *Ledger) now() moment {
	uptime := l.clock.Elapsed()
	return moment{uptime: uptime, micros: l.epoch + uptime.Microseconds(), clockAhead: l.clockAhead.Load()}
}

// checkOpen returns an error if ctx has ended or the ledger is closed.
func (l *Ledger) checkOpen(ctx context.Context) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.closed.Load() {
		return headgate.ErrClosed
	}
	return nil
}

// A request is a check that is being decided.
type request struct {
	plan      *quota.Plan
	key       tally.Key
	units     int64
	peek      bool  // take nothing
	offset    int64 // µs by which the windows of a staggered limit start later
	otherKind bool  // the limit that applies keeps a different kind of state than the check's limit
	mayWait   bool  // may wait for a lookup
	// If allowance.Denied is set, the check must be denied without being counted.
	allowance fallback.Allowance
	// sharePlan is the plan of the part of the limit that the allowance permits: the share of the live nodes or, if the
	// peers are unreachable, of this node alone. It is nil if the whole limit may be used.
	sharePlan *quota.Plan
}

// takesNothing reports whether a request is a peek, or can never be allowed because it needs more than the capacity.
// Such a request does not change the limit of a record.
func (req *request) takesNothing() bool { return req.peek || req.units > req.plan.Capacity() }

// prepare validates a check and turns it into a request.
func (l *Ledger) prepare(c *headgate.Check) (req request, err error) {
	// Validate is slow, so it is called only if a field that the ledger always uses may be invalid. prepareValid
	// validates the limit.
	if c.Cost < 1 || c.Key == "" || len(c.Key) > headgate.MaxKeyBytes || c.Partition != headgate.PartitionFull {
		if err := c.Validate(); err != nil {
			return req, err
		}
	}
	return l.prepareValid(c)
}

// prepareValid is like prepare, but validates only the limit of the check.
func (l *Ledger) prepareValid(c *headgate.Check) (req request, err error) {
	req.units, req.mayWait = c.Cost, true
	limit, replaced := &c.Limit, false
	var other headgate.Limit
	if unreachable := l.isUnreachable(c); unreachable || c.Partition != headgate.PartitionFull {
		req.allowance = fallback.Allow(c, &other, unreachable, l.options.Members)
		limit, replaced = &other, true
	}
	if req.plan, err = l.plans.Get(limit, quota.NewPlan); err != nil {
		return req, err
	}
	if replaced && limit.Algorithm != c.Limit.Algorithm {
		own, err := l.plans.Get(&c.Limit, quota.NewPlan)
		if err != nil {
			return req, err
		}
		req.otherKind = own.Kind != req.plan.Kind
	}
	if req.allowance.Whole > 0 {
		share := quota.Share(*limit, req.allowance.Part, req.allowance.Whole)
		if req.sharePlan, err = l.plans.Get(&share, quota.NewPlan); err != nil {
			return req, err
		}
	}
	req.key = l.hash(c.Key, req.plan.Kind)
	if req.plan.Limit.Staggered {
		req.offset = req.plan.Offset(c.Key)
	}
	return req, nil
}

// Take decides one check. See [headgate.Limiter].
func (l *Ledger) Take(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	if err := l.checkOpen(ctx); err != nil {
		return d, err
	}
	now := l.now()
	req, err := l.prepare(&c)
	if err != nil {
		return d, err
	}
	if req.allowance.Denied {
		return l.unreachable.Deny(&c, now.uptime), nil
	}
	return l.takeOrPeek(ctx, &req, now)
}

// Peek returns the decision that Take would return now. See [headgate.Limiter].
func (l *Ledger) Peek(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	if err := l.checkOpen(ctx); err != nil {
		return d, err
	}
	if err := c.ValidatePeek(); err != nil {
		return d, err
	}
	now := l.now()
	req, err := l.prepareValid(&c)
	if err != nil {
		return d, err
	}
	if req.allowance.Denied {
		return l.unreachable.Deny(&c, now.uptime), nil
	}
	// The figures of the decision describe the key without the cost. Allowed and the times to wait are for the cost.
	req.peek, req.units = true, 0
	if d, err = l.takeOrPeek(ctx, &req, now); err != nil || c.Cost == 0 {
		return d, err
	}
	req.units = c.Cost
	withCost, err := l.takeOrPeek(ctx, &req, now)
	d.Allowed, d.RetryAfter, d.Delay = withCost.Allowed, withCost.RetryAfter, withCost.Delay
	return d, err
}

// takeOrPeek decides a request, after a lookup if that is necessary.
func (l *Ledger) takeOrPeek(ctx context.Context, req *request, now moment) (d headgate.Decision, err error) {
	sh := l.shardOf(&req.key)
	sh.mu.Lock()
	wait, err := l.take(sh, req, now, &d)
	sh.mu.Unlock()
	if wait == nil {
		return d, err
	}
	if err := l.Await(ctx, wait); err != nil {
		return d, err
	}
	req.mayWait = false
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, err = l.take(sh, req, l.now(), &d)
	return d, err
}

// take decides a request, or returns the lookup that the request has to wait for. The caller has locked the shard.
func (l *Ledger) take(sh *shard, req *request, now moment, d *headgate.Decision) (wait *lookup.Lookup, err error) {
	r := sh.records[req.key]
	isNew := r == nil
	if isNew {
		if l.pulls && req.peek && req.plan.Shared { // nodes share units under this limit
			r, _ = l.add(sh, req.key, req.plan, req.offset, now) // the record is needed for a lookup
		} else if !req.takesNothing() {
			if r, err = l.add(sh, req.key, req.plan, req.offset, now); err != nil {
				return nil, err
			}
		}
	}
	if r == nil || req.takesNothing() && (r.plan != req.plan || r.limitReplaced()) {
		*d = l.peek(req, now)
		return nil, nil
	}
	if req.sharePlan != nil || r.extra.liveShare != nil {
		l.setLiveShare(r, req, now)
	}
	l.applyLimit(r, req.plan, req.offset, now)
	at := r.time(now)
	if (r.status.peersUnknown || at-r.requestedAt > l.lookupAfter) && (!isNew || req.peek) {
		if wait := l.checkLookup(sh, r, req, now); wait != nil {
			return wait, nil
		}
	}
	if req.takesNothing() {
		*d = l.peek(req, now)
		return nil, nil
	}
	r.requestedAt = at
	if l.tryTake(r, req.units, now, d) {
		r.changedAt = at
		l.countConsumed(sh, r, req.units, now)
		r.updateEmptyAt(d, now)
		r.status.denied = false
		r.includePending(d, req.units) // units of peers that are not charged yet
		if r.hasExtraCounters() {
			r.applyExtraCounters(d, 0, at) // 0 units, because tryTake has charged them to these counters
		}
	} else {
		r.deny(req.units, now)
		l.queueLookup(sh, r)
	}
	d.Degraded = req.allowance.Degraded
	if req.otherKind && d.Receipt.Units > 0 {
		d.Receipt.Lease = leaseForKind(req.plan.Kind) // so that Give finds the counter, whose key depends on the kind
	}
	return nil, nil
}

// Options returns the options, with defaults for those that were zero.
func (l *Ledger) Options() fleet.LedgerOptions { return l.options }
