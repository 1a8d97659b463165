package regiontotals

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

var _ fleet.RegionStore = (*Store)(nil)

// A Store is a [fleet.RegionStore] in memory. It is safe for concurrent use. Create one with [New].
type Store struct {
	mu   sync.Mutex
	now  func() time.Time
	keys map[string]*key
}

// New returns an empty Store. now is its clock.
func New(now func() time.Time) *Store { return &Store{now: now, keys: make(map[string]*key)} }

// A key is the state of one key. Times are in µs.
type key struct {
	reported   bool // start, window and total are set
	start      int64
	window     int64
	total      int64
	previous   int64  // units that the region consumed in the window before
	sender     string // the node that sends the key for the region
	sendsUntil int64  // when another node may become the sender
	learnedAt  int64  // when a sender last knew the consumption of other regions
	nodes      map[string]total
	regions    map[string]total
	expiresAt  int64
}

// A total is the latest total of a node or of another region.
type total struct {
	start, units int64
	window       int64
	previous     int64 // units that the region consumed in the window before
	sentAt       int64
	tooLarge     bool // the total was larger than possible
}

// unitsBefore returns the units of the total if its window starts in the time from before to window, and 0 otherwise.
// before is the start of the previous window, and window that of the open one.
func (t *total) unitsBefore(before, window int64) int64 {
	if t.window >= before && t.window < window {
		return t.units
	}
	return 0
}

func (s *Store) key(name string, now int64, keep time.Duration) *key {
	k := s.keys[name]
	if k == nil || now >= k.expiresAt {
		k = &key{nodes: make(map[string]total), regions: make(map[string]total)}
		s.keys[name] = k
	}
	k.expiresAt = now + keep.Microseconds()
	return k
}

// Report implements fleet.RegionStore.
func (s *Store) Report(
	_ context.Context, node string, hold time.Duration, records []fleet.NodeRecord, reported func(int, fleet.RegionRecord),
) (missed []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UnixMicro()
	for i := range records {
		reported(i, s.key(records[i].Key, now, records[i].Keep).report(node, hold.Microseconds(), &records[i], now))
	}
	return nil, nil
}

func (k *key) report(node string, hold int64, r *fleet.NodeRecord, now int64) fleet.RegionRecord {
	switch {
	case !k.reported:
		k.reported, k.start, k.window = true, now, r.Window
	case r.Window < k.window && k.window <= now+r.Keep.Microseconds():
		return fleet.RegionRecord{Learned: true, Start: k.start, Total: k.total, Now: now} // the node's window has ended
	case r.Window != k.window:
		ended := total{units: k.total, window: k.window}
		k.previous = ended.unitsBefore(r.Before, r.Window)
		k.start, k.total, k.window = max(now, k.start+1), 0, r.Window
	}
	base, missed := r.Reported, r.Previous
	if known, ok := k.nodes[node]; ok {
		if known.start >= r.Start || known.window == r.Window {
			missed = 0
		} else {
			missed = max(0, r.Previous-known.unitsBefore(r.Before, r.Window))
		}
		switch {
		case known.start == r.Start:
			base = known.units
		case known.start > r.Start:
			base = r.Total // a late report of a record that has ended
		default:
			base = 0
		}
	}
	k.total += max(0, r.Total-base)
	k.previous += missed
	k.nodes[node] = total{start: r.Start, units: max(r.Total, base), window: r.Window}
	sends := k.sender == node || k.sendsUntil < now || k.sendsUntil > now+10*hold
	if sends {
		k.sender, k.sendsUntil = node, now+hold
		if r.Learned {
			k.learnedAt = now
		}
	}
	return fleet.RegionRecord{
		IsSender: sends, Learned: now-k.learnedAt <= 2*hold, Start: k.start, Total: k.total, Previous: k.previous, Now: now,
	}
}

// Settle implements fleet.RegionStore.
func (s *Store) Settle(
	_ context.Context, totals []fleet.RemoteTotal, growth func(int, fleet.Growth),
) (missed []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UnixMicro()
	for i := range totals {
		growth(i, s.key(totals[i].Key, now, totals[i].Keep).settle(&totals[i]))
	}
	return nil, nil
}

func (k *key) settle(t *fleet.RemoteTotal) fleet.Growth {
	known, ok := k.regions[t.Region]
	base, maxUnits := int64(0), t.MaxTotal
	previous := known.unitsBefore(t.Before, t.Window)
	if ok && known.window == t.Window {
		previous = known.previous
	}
	switch {
	case !ok || known.start < t.Start:
		known.tooLarge = false
	case known.start > t.Start:
		return fleet.Growth{} // a late total of a record that has ended
	case t.Total < known.units:
		return fleet.Growth{Fell: t.SentAt > known.sentAt}
	default:
		if base = known.units; base > 0 {
			maxUnits = t.MaxGrowth
		}
	}
	units := t.Total - base
	tooLarge := units > maxUnits
	if tooLarge {
		units = maxUnits
		if known.tooLarge {
			units = 0
		}
	}
	k.regions[t.Region] = total{
		start: t.Start, units: base + units, window: t.Window, previous: max(t.Previous, previous), sentAt: t.SentAt,
		tooLarge: tooLarge,
	}
	return fleet.Growth{Units: units, Previous: max(0, t.Previous-previous), First: !ok, TooLarge: tooLarge}
}
