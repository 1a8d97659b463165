package fleet

import (
	"context"
	"time"
)

// A RegionStore adds up the consumption of a region's nodes, and stores the totals of other regions.
// fleetredis.RegionStore implements it in the region's Redis. Times are in µs. Times that a node passes are by the
// node's clock; all other times are by the clock of the RegionStore.
type RegionStore interface {
	// Report adds a node's consumption to that of the region, and calls reported for each record with the region's
	// totals. Repeated reports add nothing. For every key, one of the nodes that report it is the sender, which sends the
	// region's total to other regions. A node stays the sender for the time hold after each of its reports. A node that
	// restarts must use another name. missed has the indices of records for which reported was not called.
	Report(ctx context.Context, node string, hold time.Duration, records []NodeRecord,
		reported func(record int, r RegionRecord)) (missed []int, err error)
	// Settle stores totals of other regions, and calls growth for each total with the units that are new. If a total is
	// larger than possible, the largest possible number of units is added, once. missed has the indices of totals for
	// which growth was not called.
	Settle(ctx context.Context, totals []RemoteTotal, growth func(total int, g Growth)) (missed []int, err error)
}

// A NodeRecord is a node's consumption of a key.
type NodeRecord struct {
	Key      string // 16 bytes
	Start    int64  // start of the node's total
	Window   int64  // the start of the window; 0 for limits without windows
	Before   int64  // the start of the window before
	Total    int64  // units consumed since Start
	Previous int64  // units consumed in the window before
	Reported int64  // part of Total that was reported before
	Learned  bool   // the node knows the consumption of other regions
	Keep     time.Duration
}

// A RegionRecord is the consumption of a key by all nodes of a region.
type RegionRecord struct {
	IsSender bool // the reporting node is the sender
	Learned  bool // within the last two hold times, a sender knew the consumption of other regions
	Start    int64
	Total    int64
	Previous int64 // units consumed in the window before
	Now      int64 // the time by the clock of the RegionStore
}

// A RemoteTotal is the consumption of a key that another region has reported.
type RemoteTotal struct {
	Key, Region string
	Start       int64 // start of the region's total
	Window      int64 // the start of the window; 0 for limits without windows
	Before      int64 // the start of the window before
	Total       int64
	Previous    int64 // units consumed in the window before
	SentAt      int64 // when the total was sent, by the sender's clock
	MaxTotal    int64 // the largest possible Total
	MaxGrowth   int64 // the largest possible growth of Total since it was last settled
	Keep        time.Duration
}

// A Growth is the difference between a RemoteTotal and the stored total.
type Growth struct {
	Units    int64
	Previous int64 // new units of the window before
	First    bool  // there was no stored total of the region
	TooLarge bool  // the total exceeds what is possible
	Fell     bool  // the total is smaller than before
}
