package fleet

import "time"

// LedgerStats are the figures of a ledger.
type LedgerStats struct {
	// Keys is the number of keys in memory, and MaxKeys the maximum number.
	Keys, MaxKeys int
	// Waiting is the number of keys that have something to send.
	Waiting int
	// Peers is the number of peers known, counting each incarnation of a node.
	Peers int
	// Applied is the number of units that peers reported to have consumed.
	Applied int64
	// Over estimates the over-admission of all nodes together. Each time that updates put a key into debt, the largest
	// debt is added. OverMax is the largest debt of a single key. Debts are repaid, so in the long run no more units are
	// admitted than the limits allow.
	Over, OverMax int64
	// Lag is the recent average age of updates when they are applied. LagMax is the maximum of the last minute or two. If
	// the age of an update is unknown, it is estimated by comparison with its sender's fastest update.
	Lag, LagMax time.Duration
	// Levelled is the number of units that were charged because peers reported higher levels for some time, which means
	// that this node has missed updates.
	Levelled int64
	// Refused is the number of implausible updates.
	Refused int64
	// Evicted is the number of keys that were evicted because there was no room for a new key. Full is the number of new
	// keys that were refused, and Ignored the number of updates that were dropped, because no key could be evicted.
	Evicted, Full, Ignored int64
	// Lookups counts keys whose consumption by peers was looked up: new keys, and keys that were unused for some time.
	// LookupWaits counts decisions that waited for a lookup. LookupsDropped counts decisions that used only this node's
	// counter, because too many decisions were waiting or no response came in time.
	Lookups, LookupWaits, LookupsDropped int64
	// PeersDropped counts how often a record had too many peers and dropped one.
	PeersDropped int64
}

// ExchangeStats are the figures of a limiter that uses an Exchange.
type ExchangeStats struct {
	LedgerStats
	// Exchanges is the number of exchanges. Failures is the number of exchanges that failed for at least one key.
	Exchanges, Failures int64
	// Sent and Received count updates.
	Sent, Received int64
	// Malformed counts notes that could not be read.
	Malformed int64
	// Foreign counts exchanges that found notes of another fleet.
	Foreign int64
	// RoundTrip is the duration of the latest exchange.
	RoundTrip time.Duration
	// Unreachable is set if no exchange succeeded for so long that policies apply.
	Unreachable bool
	// UnreachableGroups is the number of unreachable key groups, if some are reachable.
	UnreachableGroups int
	// ClockAhead is the time by which the fleet's clock is ahead of this node's clock.
	ClockAhead time.Duration
}
