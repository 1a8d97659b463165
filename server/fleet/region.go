package fleet

import (
	"context"
	"time"
)

// A RegionStore adds up the consumption of a region's nodes, and remembers the consumption of other regions.
// fleetredis.RegionStore is one, in the region's Redis. Times are in µs. Times that a node passes are by the node's
// clock, all other times are by the clock of the RegionStore.
type RegionStore interface {
	// Report adds a node's consumption to that of the region. Repeated reports add nothing. For every key, one of the
	// nodes that report the key is the region's sender. It stays the sender for the time hold after each of its reports. A
	// node that restarts must use another name. missed has the indices of records for which reported was not called.
	Report(ctx context.Context, node string, hold time.Duration, records []NodeRecord,
		reported func(record int, r RegionRecord)) (missed []int, err error)
	// Settle stores totals of other regions, and calls growth for each total with the units that were not known yet. If a
	// total is larger than possible, the largest possible number of units counts, once. missed has the indices of totals
	// for which growth was not called.
	Settle(ctx context.Context, totals []RemoteTotal, growth func(total int, g Growth)) (missed []int, err error)
}

// A NodeRecord is what a node consumed of a key.
type NodeRecord struct {
	Key      string // 16 bytes
	Start    int64  // of the record
	Window   int64  // the start of the window; 0 for limits without windows
	Before   int64  // the start of the window before
	Total    int64  // units consumed since Start
	Previous int64  // units consumed in the window before
	Reported int64  // part of Total that was reported before
	Learned  bool   // the node knows what other regions consumed
	Keep     time.Duration
}

// A RegionRecord is what all nodes of a region consumed of a key.
type RegionRecord struct {
	IsSender bool // the reporting node is the sender
	Learned  bool // a sender of the last two hold times has learned what other regions consumed
	Start    int64
	Total    int64
	Previous int64 // units consumed in the window before
	Now      int64 // the time by the clock of the RegionStore
}

// A RemoteTotal is what another region reported to have consumed of a key.
type RemoteTotal struct {
	Key, Region string
	Start       int64 // of the region's record
	Window      int64 // the start of the window; 0 for limits without windows
	Before      int64 // the start of the window before
	Total       int64
	Previous    int64 // units consumed in the window before
	SentAt      int64 // by the sender's clock
	MaxTotal    int64 // how large Total can be
	MaxGrowth   int64 // how much Total can have grown since it was last settled
	Keep        time.Duration
}

// A Growth is the difference between a RemoteTotal and what was known of it.
type Growth struct {
	Units    int64
	Previous int64 // units of the window before that were not known
	First    bool  // nothing was known of the region
	TooLarge bool  // the total exceeds what is possible
	Fell     bool  // the total is smaller than before
}
