package ledger

import (
	"time"

	"github.com/headgate/headgate"
)

// A Key identifies the key of a check in messages between nodes. It is a keyed hash, and the same on all nodes with the
// same secret. Without the secret, it is not possible to find the client or to choose keys that collide. Among a
// hundred million keys, the probability that two collide is below 1 in 10^22.
type Key [16]byte

// A Tally is what one node reports of one key. It is cumulative: the latest tally includes all earlier tallies. So a
// lost tally only causes a delay, and a repeated tally has no effect.
type Tally struct {
	Key Key
	// Limit is the limit under which the node counts the key. It may be the zero Limit if the receiver has a record of the
	// key already.
	Limit headgate.Limit
	// Start is the uptime of the node's ledger when Total was 0, in whole microseconds. It identifies the total. A node
	// starts a new total after the key has drained, in every window if the limit has windows, and on Reset.
	Start time.Duration
	// Total is the number of units that the node has consumed since Start. Peers ignore a Total that falls.
	Total int64
	// Level is the number of units that all nodes have consumed and that have not drained, as far as the node knows.
	Level int64
	// Window is the start of the window of Total, in µs since 1970 minus Offset. It is 0 for limits without windows.
	Window int64
	// Carried is the number of earlier units that count in the window: the excess of earlier fixed windows, and units
	// consumed under a limit of another kind that this limit replaced.
	Carried int64
	// Previous is the number of units that the node consumed in the window before Window. Peers may have missed the last
	// of them, and nodes that joined since have missed all.
	Previous int64
	// AllPrevious is the number of units that all nodes consumed in the window before, as far as the node knows. It is 0
	// unless the limit is a sliding window.
	AllPrevious int64
	// Offset is how many µs later a staggered window starts.
	Offset int64
	// Reset is set if Total started because the key was reset.
	Reset bool
	// Age is how old the tally was when it was received, or 0 if that is not known. The receiver sets it.
	Age time.Duration
	// MinAge is how old the tally is at least.
	MinAge time.Duration

	Delivery
	Comparison
}

// A Delivery is what the sender of a tally knows about earlier tallies of the key. It is not sent as part of the tally.
type Delivery struct {
	Delivered int64 // the part of Total that was sent before
	SendLevel bool  // the level has to be sent even if peers know the total
	// KnownUnits is the highest total that was sent before: the number of this node's units that peers may know. In a
	// tally that was received through an exchange, it is the number of the receiver's units that the sender may know, if
	// HasKnownUnits is set.
	KnownUnits    int64
	HasKnownUnits bool
	// Unlearned is set if the consumption of peers is not known. AllNotes is set if all notes of peers have to be read,
	// because none were received yet.
	Unlearned, AllNotes bool
	Added               time.Duration // uptime when the record was added
}

// A Comparison lets nodes that have received the same updates agree on a level; see applySum.
type Comparison struct {
	Sum         int64  // units in the recent totals of all nodes that the sender knows
	Digest      uint16 // identifies those totals
	DrainedPart uint8  // of the last unit of Level, in 64ths
	SumValid    bool   // Sum and Digest can be used
	Recent      bool   // Total is among the recent totals
}

// A peerTotal is what a record knows of one peer.
type peerTotal struct {
	slot               int32         // of the peer in Ledger.peers
	gen                uint32        // generation of the slot
	start              time.Duration // Tally.Start of the total
	total              int64
	sentAt             time.Duration // the peer's uptime when it sent the total
	emptyTime          int64         // the record's emptyTime at the latest update
	updatedAt          int64         // when the latest update was sent, as far as that is known
	grewAt             int64         // when the total last grew, if it is recent, otherwise 0; see applySum
	emptyTimeWhenEqual int64         // the record's emptyTime when both levels were last equal

	above       levelGap
	comparisons int32 // number of comparisons of levels since above.startedAt
	impossible  bool  // the latest total was larger than possible
	older       bool  // the peer's record is older than what this node knows
	// windowsAgo is how many windows before the open one the latest total belongs to: -1 if its window has not started
	// here, and longAgo for two and more.
	windowsAgo int8
}

// longAgo is the highest value of peerTotal.windowsAgo.
const longAgo = 2

// pastWindow reports whether the latest total is of a window that has ended.
func (p *peerTotal) pastWindow() bool { return p.windowsAgo > 0 }

// nextWindow reports whether the latest total is of a window that has not started here.
func (p *peerTotal) nextWindow() bool { return p.windowsAgo < 0 }

// setWindow records to which window the latest total belongs.
func (p *peerTotal) setWindow(r *record, window int64) {
	switch {
	case !r.plan.HasWindows() || window == r.window.start:
		p.windowsAgo = 0
	case window > r.window.start:
		p.windowsAgo = -1
	case window >= r.window.start-r.plan.Period:
		p.windowsAgo = 1
	default:
		p.windowsAgo = longAgo
	}
}

// A levelGap is the range of the differences between a peer's level and ours in all updates since startedAt. The
// differences are positive if the peer's level is higher. See catchUp.
type levelGap struct {
	lowest, highest, startedAt int64
}
