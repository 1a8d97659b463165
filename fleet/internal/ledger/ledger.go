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
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/quota"
)

var _ headgate.Limiter = (*Ledger)(nil)

// A Ledger decides by what this node knows, and knows what this node consumed and what it has heard that others did. It
// is the part that [Async] and [Gossip] have in common; they carry its tallies about.
//
// A decision asks nobody: it costs a hash, a lock that is held for some dozens of nanoseconds, and a step of the
// algorithm. It allocates nothing but the record of a key that is new.
//
// # What others consumed
//
// Each node counts by itself and tells its total. Whoever hears a total that has grown charges the growth to its own
// counter, into debt if need be, so that all counters come to the same level, and what slipped through while nobody knew
// is repaid before anybody lets more pass. The three hosts of the book: a limit of 4/s and a burst of 4; if each of them
// lets 4 pass before it hears of the others, each ends at −8 and stays closed for 2 s.
//
// A bucket that is full leaks nothing, which is right for one host and wrong for one of several: what it did not leak
// could have been consumed elsewhere. So a node counts for how long it stood full, and takes that off what it hears of
// next, but for what the other says is still in its own bucket. Without this, two nodes that each use half of a limit
// would be charged for the other half whenever they hear of it, and be closed for a while, though nobody has exceeded
// anything; the longer the interval the worse.
//
// Counts of windows carry the number of their window. News of one that is over counts under a sliding window, where it still
// weighs, and as far as it shows that more passed in it than its limit: that is carried into the next fixed window.
//
// # Whom to believe
//
// Nodes believe each other in what can be true. A total that falls, a start in the future, a key without a limit are not
// heeded; and nobody can have consumed more since he was last heard of than MaxDebt capacities and what has refilled
// since: what is above is cut, and totals count again once they are above what was charged. Both are counted and reported.
//
// # Memory
//
// A key takes about 400 bytes, and 96 for each peer that consumed of it, of at most [MaxPeers]. There are at most
// Options.MaxKeys. Those that are as good as new and have nothing left to tell are dropped as time goes; if all places are
// taken, one that has the least left to remember makes room, but never one whose latest decision was a denial; if there is
// nobody else the new key is refused with headgate.ErrFull.
//
// # Limits
//
// token-bucket, gcra, fixed-window and sliding-window are shared. Keys under the other algorithms are counted by each node
// for itself; rules that ask for that do not load.
type Ledger struct {
	options fleet.LedgerOptions
	// asks is set if this node hears only of keys that it asks for, as in Async. Then Changes has keys of which nothing was consumed
	// but that were asked for, and a tally says nothing of the time before this node first asked. In Gossip it hears of all keys.
	asks   bool
	k0, k1 uint64
	epoch  int64         // µs since 1970 when the clock was at 0
	ahead  atomic.Int64  // µs: by how much the date that windows go by is ahead of that
	began  time.Duration // by the clock
	self   uint64        // stands for this node in digests; 0 if peers do not compare sums
	plans  algorithm.Cache[*quota.Plan]
	closed atomic.Bool

	away    atomic.Bool   // see SetAway
	cut     atomic.Uint64 // see setCut
	retryAt atomic.Int64  // by the clock: when those denied because of that may come again
	// attentive is for how long after a key was asked for it is asked for in every other call of Changes.
	attentive time.Duration
	learning  learning

	forgot atomic.Int64 // by the clock: when a record was last forgotten that was worth keeping; 0 if none was

	shards   [shards]shard
	peers    peers
	counters counters
}

// shards are as many as Groups, so that the keys of a group are in one.
const shards = fleet.KeyGroups

// New returns an empty ledger. It runs nothing of its own.
func New(o fleet.LedgerOptions, asks bool) (*Ledger, error) {
	if err := validate(&o); err != nil {
		return nil, err
	}
	l := &Ledger{options: o, asks: asks, began: o.Clock.Now()}
	l.SetLookupAge(o.Lag / 2)
	l.epoch = o.Epoch.UnixMicro()
	sum := sha256.Sum256(append([]byte("headgate fleet key "), o.Secret...))
	l.k0, l.k1 = binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])
	l.peers.init()
	for i := range l.shards {
		l.shards[i].init(max(1, (o.MaxKeys+shards-1)/shards))
	}
	return l, nil
}

// Close makes later calls fail with headgate.ErrClosed.
func (l *Ledger) Close() error {
	if l.closed.Swap(true) {
		return headgate.ErrClosed
	}
	return nil
}

// BorrowsKeys promises that the strings of a check are read only until the call returns, and owners not at all.
func (l *Ledger) BorrowsKeys() {}

// Uptime is for how long there has been this ledger, by its clock: what goes with its tallies.
func (l *Ledger) Uptime() time.Duration { return max(0, l.options.Clock.Now()-l.began) }

// KeyOf returns what stands for the key of a check.
func (l *Ledger) KeyOf(c headgate.Check) (Key, error) {
	p, err := l.plans.Get(&c.Limit, quota.NewPlan)
	if err != nil {
		return Key{}, err
	}
	return l.hash(c.Key, p.Kind), nil
}

// hash returns the name of a key. States of different kinds don't understand each other, and have names of their own.
func (l *Ledger) hash(key string, kind algorithm.Kind) (k Key) {
	h0, h1 := siphash.Hash128(l.k0, l.k1, unsafe.Slice(unsafe.StringData(key), len(key)))
	binary.LittleEndian.PutUint64(k[:], h0)
	binary.LittleEndian.PutUint64(k[8:], h1^uint64(kind)<<56)
	return k
}

func (l *Ledger) shardOf(k *Key) *shard { return &l.shards[k[0]%shards] }

// A moment is one reading of the clock.
type moment struct {
	clock  time.Duration
	uptime time.Duration
	micros int64 // since 1970
	ahead  int64 // µs: the date of the fleet is so much later
}

func (l *Ledger) now() moment {
	at := l.options.Clock.Now()
	return moment{clock: at, uptime: at - l.began, micros: l.epoch + int64(at/time.Microsecond), ahead: l.ahead.Load()}
}

// admit checks what every method is given first.
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

// An ask is one check on its way through the ledger.
type ask struct {
	plan     *quota.Plan
	key      Key
	n        int64
	offset   int64
	degraded bool
	shut     bool // denied because nodes are away
	other    bool // counted by a limit of another kind than the check's
	patient  bool // waits for a lookup if it has to
	// share is the share of the limit that live nodes have of all that are known; nil if all are live, or may use the whole.
	share       *quota.Plan
	live, known int64
}

// looks reports whether an ask can take nothing. It changes no limit.
func (a *ask) looks() bool { return a.n == 0 || a.n > a.plan.Capacity() }

// ask prepares a check. It is false for one that is denied without being counted.
func (l *Ledger) ask(c *headgate.Check) (a ask, counted bool, err error) {
	if c.Cost < 0 || c.Key == "" || len(c.Key) > headgate.MaxKeyBytes || c.Partition != headgate.PartitionFull {
		if err := c.Validate(); err != nil {
			return a, false, err
		}
	}
	a.n, a.patient, counted = c.Cost, true, true
	limit := &c.Limit
	var other headgate.Limit
	if away := l.isAway(c); away || c.Partition != headgate.PartitionFull {
		a.degraded, counted = l.terms(&a, c, &other, away)
		a.shut = !counted
		limit = &other
	}
	if a.plan, err = l.plans.Get(limit, quota.NewPlan); err != nil {
		return a, false, err
	}
	if limit != &c.Limit && limit.Algorithm != c.Limit.Algorithm {
		own, err := l.plans.Get(&c.Limit, quota.NewPlan)
		if err != nil {
			return a, false, err
		}
		a.other = own.Kind != a.plan.Kind
	}
	if a.known > 0 {
		share := part(*limit, a.live, a.known)
		if a.share, err = l.plans.Get(&share, quota.NewPlan); err != nil {
			return a, false, err
		}
	}
	a.key = l.hash(c.Key, a.plan.Kind)
	if a.plan.Limit.Staggered {
		a.offset = a.plan.Offset(c.Key)
	}
	return a, counted, nil
}

// fresh returns a decision on a key of which nothing is known.
func (a *ask) fresh(now moment) headgate.Decision {
	p := a.plan
	if a.share != nil {
		p = a.share
	}
	d := p.Decide(nil, now.at(p, a.offset), a.n)
	d.Degraded = a.degraded
	return d
}

// Take decides one check. See [headgate.Limiter].
func (l *Ledger) Take(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	if err := l.admit(ctx); err != nil {
		return d, err
	}
	now := l.now()
	a, counted, err := l.ask(&c)
	if err != nil {
		return d, err
	}
	if !counted {
		return l.shut(&c, now), nil
	}
	sh := l.shardOf(&a.key)
	sh.mu.Lock()
	wait, err := l.take(sh, &a, now, &d)
	sh.mu.Unlock()
	if wait == nil {
		return d, err
	}
	if err := l.Await(ctx, wait); err != nil {
		return d, err
	}
	a.patient = false
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, err = l.take(sh, &a, l.now(), &d)
	return d, err
}

// take decides an ask, or returns what has to be waited for before. The shard is locked.
func (l *Ledger) take(sh *shard, a *ask, now moment, d *headgate.Decision) (wait *Lookup, err error) {
	r := sh.records[a.key]
	isNew := r == nil
	if isNew {
		if l.asks && a.n == 0 && a.plan.Shared {
			r, _ = l.add(sh, a.key, a.plan, a.offset, now) // to learn of it; if there is no room, it is not learned of
		} else if a.n > 0 && a.n <= a.plan.Capacity() {
			if r, err = l.add(sh, a.key, a.plan, a.offset, now); err != nil {
				return nil, err
			}
		}
		if r == nil {
			if cur := sh.inForce(a.key, a.plan.Kind); cur != nil {
				*d = l.lookUnder(cur, a, now)
				return nil, nil
			}
			*d = a.fresh(now)
			return nil, nil
		}
	}
	if a.share != nil || r.side != nil {
		l.setSide(r, a, now)
	}
	if a.looks() && (r.plan != a.plan || r.replaced()) {
		r = l.under(r, a.plan, a.offset, now)
		*d = l.look(r, a.n, now)
		d.Degraded = a.degraded
		return nil, nil
	}
	l.arrive(r, a.plan, a.offset, now)
	at := r.at(now)
	if (r.unlearned || at-r.askedAt > l.learning.cold) && !(isNew && a.n > 0) {
		if wait := l.see(sh, r, a, now); wait != nil {
			return wait, nil
		}
	}
	if a.looks() {
		*d = l.look(r, a.n, now)
		d.Degraded = a.degraded
		return nil, nil
	}
	r.askedAt = at
	if l.try(r, a.n, now, d) {
		r.changedAt = at
		l.consumed(sh, r, a.n, now)
		r.emptied(d, now)
		r.denied = false
		r.describe(d, a.n)
		if r.side != nil {
			r.side.tighten(d, 0, at)
		}
	} else {
		r.denied = true
		l.asked(sh, r)
	}
	d.Degraded = a.degraded
	if a.other && d.Receipt.Units > 0 {
		d.Receipt.Lease = receiptOf(a.plan.Kind)
	}
	return nil, nil
}

// Options returns the options with their defaults.
func (l *Ledger) Options() fleet.LedgerOptions { return l.options }

// Drop forgets a key, for tests.
func (l *Ledger) Drop(k Key) {
	sh := l.shardOf(&k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r := sh.records[k]; r != nil {
		l.drop(sh, r)
	}
}
