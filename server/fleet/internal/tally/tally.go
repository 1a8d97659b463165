package tally

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
)

// A Key identifies the key of a check in messages between nodes. It is a keyed hash, and the same on all nodes with the
// same secret. Without the secret, it is not possible to find the client or to choose keys that collide. Among a
// hundred million keys, the probability that two collide is below 1 in 10^22.
type Key [16]byte

// GroupOf returns the group that a key is in; see [fleet.KeyGroups].
func GroupOf(k *Key) int { return int(k[0] % fleet.KeyGroups) }

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

// A Comparison lets nodes that have received the same updates agree on a level.
type Comparison struct {
	Sum         int64  // units in the recent totals of all nodes that the sender knows
	Digest      uint16 // identifies those totals
	DrainedPart uint8  // of the last unit of Level, in 64ths
	SumValid    bool   // Sum and Digest can be used
	Recent      bool   // Total is among the recent totals
}

// Reasons to refuse a tally that differs too much from the peer's tally before.
const (
	Fell   = "a total that fell"
	Leaped = "a total that grew more than possible"
)

// Impossible returns why a tally cannot be true, or "".
func (t *Tally) Impossible(uptime time.Duration) string {
	switch {
	case t.Total < 0:
		return "a negative total"
	case t.Level < 0 || t.Carried < 0 || t.Previous < 0 || t.AllPrevious < 0:
		return "a negative level"
	case t.Start < 0 || t.Start > uptime+time.Second: // records that start in the same microsecond get later starts
		return "a record from the future"
	case t.Age < 0:
		return "an update from the future"
	}
	return ""
}
