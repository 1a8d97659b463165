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
	"github.com/headgate/headgate/server/fleet/internal/peers"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

var _ Decider = (*Ledger)(nil)

// A Decider is the part of a Ledger that decides. Limiters embed it, so that they do not export the other methods.
type Decider interface {
	headgate.Limiter
	BorrowsKeys()
}

// A Ledger counts what this node consumed of each key and what its peers reported, and decides by the sum. async,
// gossip and region send and receive its tallies.
//
// A decision calls no other node. It costs a hash, a lock that is held for some dozens of nanoseconds, and a step of
// the algorithm. It allocates only the record of a new key.
//
// # Consumption by peers
//
// Each node counts by itself and sends its total. A node that receives a larger total than before charges the growth to
// its own counter, into debt if necessary. So all counters reach the same level, and over-admission is repaid before
// more is allowed. For example, with a limit of 4/s and a burst of 4, three nodes that each admit 4 units before they
// receive updates from the others end at −8 and stay closed for 2 s.
//
// An empty bucket drains nothing. This is right for one node and wrong for one of several: the units that it did not
// drain could have been consumed elsewhere. So a node measures how long its bucket was empty, and subtracts what would
// have drained from the next update, except for the units that the peer still has in its own bucket. Without this, two
// nodes that each use half of a limit would be closed for a while after each update.
//
// Totals of windows carry the start of their window. An update of a past window counts under a sliding window, where it
// still has weight. Under a fixed window, the part above the limit is carried into the next window.
//
// # Implausible updates
//
// Totals that fall, totals that start in the future and keys without a limit are ignored. A peer cannot have consumed
// more since its last update than MaxDebt capacities and the units that refilled since: larger growth is cut, and later
// totals count once they are above what was charged. Both are counted and reported.
//
// # Memory
//
// A key takes about 400 bytes, and 96 for each peer that consumed it, of at most [MaxPeers]. There are at most
// Options.MaxKeys keys. Drained keys with nothing left to send are dropped over time. If there is no room, the key
// with the least left to drain is evicted, but never one whose latest decision was a denial. If there is no other, the
// new key is refused with headgate.ErrFull.
type Ledger struct {
	options fleet.LedgerOptions
	// pulls is set if this node receives updates only of keys that it requests from its peers, as in async. Then Changes
	// also returns keys that callers used without consuming anything, and tallies do not cover the time before the key's
	// record was added. In gossip, nodes receive updates of all keys.
	pulls      bool
	k0, k1     uint64
	clock      clock.Stopwatch
	epoch      int64        // µs since 1970 when the clock was started
	clockAhead atomic.Int64 // µs that the fleet's clock, which windows use, is ahead
	self       uint64       // hash of this node in digests
	plans      algorithm.Cache[*quota.Plan]
	closed     atomic.Bool

	unreachable       atomic.Bool   // see SetUnreachable
	unreachableGroups atomic.Uint64 // see SetGroupsUnreachable
	retryAt           atomic.Int64  // uptime when callers may retry that were denied because peers are unreachable
	// pullFor is how long Changes returns a key in every second call after a request for it.
	pullFor time.Duration
	lookups lookupState

	evictedAt atomic.Int64 // uptime when a record was last evicted; 0 if never

	shards   [shards]shard
	peers    peers.Table
	counters counters
}

// shards is KeyGroups, so that the keys of a group are in one shard.
const shards = fleet.KeyGroups

// New returns an empty ledger of the node self. pulls is whether the node receives updates only of keys that it
// requests from its peers. If there are no peers, self may be the zero Peer.
func New(o fleet.LedgerOptions, self fleet.Peer, pulls bool) (*Ledger, error) {
	if err := validate(&o); err != nil {
		return nil, err
	}
	l := &Ledger{options: o, self: peers.Hash(self), pulls: pulls, clock: clock.NewStopwatch(o.Clock)}
	l.peers.KeepEnded = pulls
	l.SetLookupAge(o.Lag / 2)
	l.epoch = l.clock.Start.UnixMicro()
	sum := sha256.Sum256(append([]byte("headgate fleet key "), o.Secret...))
	l.k0, l.k1 = binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])
	for i := range l.shards {
		l.shards[i].init(max(1, (o.MaxKeys+shards-1)/shards))
	}
	return l, nil
}

// Close makes later calls fail with headgate.ErrClosed.
func (l *Ledger) Close() error {
	l.closed.Store(true)
	return nil
}

// BorrowsKeys promises that the strings of a check are read only until the call returns, and owners not at all.
func (l *Ledger) BorrowsKeys() {}

// Clock returns the clock, which was started with the ledger.
func (l *Ledger) Clock() clock.Stopwatch { return l.clock }

// Uptime returns the age of this ledger by its clock. It is sent with its tallies.
func (l *Ledger) Uptime() time.Duration { return max(0, l.clock.Elapsed()) }

// hash returns the hash of a key. Each kind of state has a hash of its own, since one kind cannot read another's.
func (l *Ledger) hash(key string, kind algorithm.Kind) (k Key) {
	h0, h1 := siphash.Hash128(l.k0, l.k1, unsafe.Slice(unsafe.StringData(key), len(key)))
	binary.LittleEndian.PutUint64(k[:], h0)
	binary.LittleEndian.PutUint64(k[8:], h1^uint64(kind)<<56)
	return k
}

func (l *Ledger) shardOf(k *Key) *shard { return &l.shards[k[0]%shards] }

// lock locks the shard of a key, and returns the key's record, or nil.
func (l *Ledger) lock(k *Key) (*shard, *record) {
	sh := l.shardOf(k)
	sh.mu.Lock()
	return sh, sh.records[*k]
}

// A moment is one reading of the clock.
type moment struct {
	uptime     time.Duration
	micros     int64 // since 1970
	clockAhead int64 // µs that the fleet's clock is ahead
}

func (l *Ledger) now() moment {
	uptime := l.clock.Elapsed()
	return moment{uptime: uptime, micros: l.epoch + uptime.Microseconds(), clockAhead: l.clockAhead.Load()}
}

// admit checks the arguments that all methods share.
func (l *Ledger) admit(ctx context.Context) error {
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
	key       Key
	units     int64
	peek      bool // take nothing
	offset    int64
	degraded  bool
	refused   bool // denied because peers are unreachable
	otherKind bool // counted under a limit whose algorithm has another kind of state than the check's
	mayWait   bool // may wait for a lookup
	// sharePlan is the part of the limit for live nodes; nil if all nodes are live, or if the nodes may use all of it.
	sharePlan   *quota.Plan
	live, known int64
}

// peeks reports whether a request cannot take anything. Such a request does not change the limit.
func (q *request) peeks() bool { return q.peek || q.units > q.plan.Capacity() }

// prepare prepares a check. counted is false if the check is denied without being counted.
func (l *Ledger) prepare(c *headgate.Check) (q request, counted bool, err error) {
	if c.Cost < 1 || c.Key == "" || len(c.Key) > headgate.MaxKeyBytes || c.Partition != headgate.PartitionFull {
		if err := c.Validate(); err != nil {
			return q, false, err
		}
	}
	return l.prepareValid(c)
}

// prepareValid is prepare for a check whose fields other than the limit are valid.
func (l *Ledger) prepareValid(c *headgate.Check) (q request, counted bool, err error) {
	q.units, q.mayWait, counted = c.Cost, true, true
	limit := &c.Limit
	var other headgate.Limit
	if unreachable := l.isUnreachable(c); unreachable || c.Partition != headgate.PartitionFull {
		q.degraded, counted = l.limitWhenUnreachable(&q, c, &other, unreachable)
		q.refused = !counted
		limit = &other
	}
	if q.plan, err = l.plans.Get(limit, quota.NewPlan); err != nil {
		return q, false, err
	}
	if limit != &c.Limit && limit.Algorithm != c.Limit.Algorithm {
		own, err := l.plans.Get(&c.Limit, quota.NewPlan)
		if err != nil {
			return q, false, err
		}
		q.otherKind = own.Kind != q.plan.Kind
	}
	if q.known > 0 {
		share := quota.Share(*limit, q.live, q.known)
		if q.sharePlan, err = l.plans.Get(&share, quota.NewPlan); err != nil {
			return q, false, err
		}
	}
	q.key = l.hash(c.Key, q.plan.Kind)
	if q.plan.Limit.Staggered {
		q.offset = q.plan.Offset(c.Key)
	}
	return q, counted, nil
}

// Take decides one check. See [headgate.Limiter].
func (l *Ledger) Take(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	if err := l.admit(ctx); err != nil {
		return d, err
	}
	now := l.now()
	q, counted, err := l.prepare(&c)
	if err != nil {
		return d, err
	}
	if !counted {
		return l.denyUnreachable(&c, now), nil
	}
	return l.takeOrPeek(ctx, &q, now)
}

// Peek returns the decision that Take would return now. See [headgate.Limiter].
func (l *Ledger) Peek(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	if err := l.admit(ctx); err != nil {
		return d, err
	}
	if err := c.ValidatePeek(); err != nil {
		return d, err
	}
	now := l.now()
	q, counted, err := l.prepareValid(&c)
	if err != nil {
		return d, err
	}
	if !counted {
		return l.denyUnreachable(&c, now), nil
	}
	q.peek, q.units = true, 0
	if d, err = l.takeOrPeek(ctx, &q, now); err != nil || c.Cost == 0 {
		return d, err
	}
	q.units = c.Cost
	with, err := l.takeOrPeek(ctx, &q, now)
	d.Allowed, d.RetryAfter, d.Delay = with.Allowed, with.RetryAfter, with.Delay
	return d, err
}

// takeOrPeek decides a request, after a lookup if that is necessary.
func (l *Ledger) takeOrPeek(ctx context.Context, q *request, now moment) (d headgate.Decision, err error) {
	sh := l.shardOf(&q.key)
	sh.mu.Lock()
	lookup, err := l.take(sh, q, now, &d)
	sh.mu.Unlock()
	if lookup == nil {
		return d, err
	}
	if err := l.Await(ctx, lookup); err != nil {
		return d, err
	}
	q.mayWait = false
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, err = l.take(sh, q, l.now(), &d)
	return d, err
}

// take decides a request, or returns the lookup that it has to wait for. The shard is locked.
func (l *Ledger) take(sh *shard, q *request, now moment, d *headgate.Decision) (lookup *Lookup, err error) {
	r := sh.records[q.key]
	isNew := r == nil
	if isNew {
		if l.pulls && q.peek && q.plan.Shared {
			r, _ = l.add(sh, q.key, q.plan, q.offset, now) // so that it is looked up, if there is room
		} else if !q.peeks() {
			if r, err = l.add(sh, q.key, q.plan, q.offset, now); err != nil {
				return nil, err
			}
		}
	}
	if r == nil || q.peeks() && (r.plan != q.plan || r.replaced()) {
		*d = l.peek(q, now)
		return nil, nil
	}
	if q.sharePlan != nil || r.optional.share != nil {
		l.setShare(r, q, now)
	}
	l.update(r, q.plan, q.offset, now)
	at := r.at(now)
	if (r.status.unlearned || at-r.requestedAt > l.lookups.maxAge) && (!isNew || q.peek) {
		if lookup := l.checkLookup(sh, r, q, now); lookup != nil {
			return lookup, nil
		}
	}
	if q.peeks() {
		*d = l.peek(q, now)
		return nil, nil
	}
	r.requestedAt = at
	if l.tryTake(r, q.units, now, d) {
		r.changedAt = at
		l.countConsumed(sh, r, q.units, now)
		r.setEmptyAt(d, now)
		r.status.denied = false
		r.addOwed(d, q.units)
		if r.hasExtraCounters() {
			r.tightenByExtraCounters(d, 0, at)
		}
	} else {
		r.status.denied = true
		l.queueLookup(sh, r)
	}
	d.Degraded = q.degraded
	if q.otherKind && d.Receipt.Units > 0 {
		d.Receipt.Lease = leaseOfKind(q.plan.Kind)
	}
	return nil, nil
}

// Options returns the options, with defaults for those that were zero.
func (l *Ledger) Options() fleet.LedgerOptions { return l.options }
