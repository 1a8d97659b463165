package ledger

import (
	"time"

	"github.com/headgate/headgate"
)

// A Key identifies the key of a check between nodes: a keyed hash, the same on all nodes with the same secret. Without
// the secret, it is not possible to find the client or to choose keys that collide. Among a hundred million keys the
// odds of one colliding pair are below 1 in 10^22.
type Key [16]byte

// A Tally is what one node reports of one key. It is cumulative: the latest tally includes all earlier ones, so a lost
// one only delays, and a repeated one has no effect.
type Tally struct {
	Key Key
	// Limit is the limit that the node counts the key under. It may be the zero Limit if the receiver counts the key
	// already.
	Limit headgate.Limit
	// Start identifies the record of Total by the uptime of the node's ledger when it started, in whole microseconds. A
	// node starts a record again when it is drained, in every window if the limit has windows, and on Reset.
	Start time.Duration
	// Total is what this node has consumed since Start. It only grows.
	Total int64
	// Level is the number of units consumed by all nodes, as far as the node knows, that have not drained.
	Level int64
	// Window is the start of the window of Total, in µs since 1970 minus Offset, for limits that have windows.
	Window int64
	// Carried is the number of units from before the window that count in it: excess of earlier fixed windows, and units
	// consumed under a limit of another kind that this one replaced.
	Carried int64
	// Offset is how much later than others a staggered window starts, in µs.
	Offset int64
	// Reset is set if the record started because the key was reset.
	Reset bool
	// Age is how old the tally is when it is received, or 0 if that is not known. The receiver sets it.
	Age time.Duration
	// MinAge is how old the tally is at least.
	MinAge time.Duration

	Delivery
	Comparison
}

// A Delivery is what the sender of a tally knows about earlier tallies of the key. It is not sent.
type Delivery struct {
	Delivered int64 // the part of Total that was sent before
	SendLevel bool  // the level has to be sent even if peers know the total
	// KnownUnits is the highest total that was sent before: peers may know so many of this node's units. In a tally that
	// was received through an exchange, it is how many of the receiver's units the sender may know, if HasKnownUnits.
	KnownUnits    int64
	HasKnownUnits bool
	// Unlearned is set if the consumption of peers is not known, and AllNotes if no notes of peers were received yet.
	Unlearned, AllNotes bool
	Added               time.Duration // uptime when the record was added
}

// A Comparison lets nodes that have received the same updates agree on a level; see applySum. Only gossip sends it.
type Comparison struct {
	Sum         int64  // units that the sender counts in recent records of all nodes
	Digest      uint16 // identifies those records
	DrainedPart uint8  // of the last unit of Level, in 64ths
	SumValid    bool   // Sum and Digest can be used
	Recent      bool   // the record of Total is among the recent ones
}

// A peerTotal is what a record knows of one peer.
type peerTotal struct {
	slot         int32  // of the peer in Ledger.peers
	gen          uint32 // of the slot
	start        time.Duration
	total        int64
	sentAt       time.Duration // the peer's uptime when it sent the total
	emptyTime    int64         // the record's emptyTime at the latest update
	updatedAt    int64
	grewAt       int64 // when it was last reported to have grown, if it is recent; see applySum
	emptyAtLevel int64 // the record's emptyTime when both levels were last equal

	above      levelGap
	compared   int32 // how often levels were compared since above.since
	impossible bool  // the latest total was larger than possible
	pastWindow bool  // the latest total is of a window that has ended
	nextWindow bool  // the latest total is of a window that has not started here
	older      bool  // the peer's record is older than what this node knows
}

// setWindow records whether the latest total is of another window than the open one of the record.
func (p *peerTotal) setWindow(r *record, window int64) {
	p.pastWindow = r.plan.HasWindows() && window < r.window.start
	p.nextWindow = r.plan.HasWindows() && window > r.window.start
}

// A levelGap is by how much a peer's level was above ours in all updates since a time; see catchUp.
type levelGap struct {
	least, most, since int64
}
