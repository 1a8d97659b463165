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

// A Tally is a node's report of its consumption of one key. It is cumulative: the latest tally includes all earlier
// tallies. So a lost tally only causes a delay, and a repeated tally has no effect.
type Tally struct {
	Key Key
	// Limit is the limit under which the node counts the key. It may be the zero Limit if the receiver has a record of the
	// key already.
	Limit headgate.Limit
	// Start is the uptime of the node's ledger when Total was 0, in whole microseconds. A different Start means that the
	// node began to count from 0 again. It does so after the key has drained, in every window if the limit has windows,
	// and on Reset.
	Start time.Duration
	// Total is the number of units that the node has consumed since Start. Peers ignore a Total that has decreased.
	Total int64
	// Level is the number of units that all nodes have consumed and that have not drained, as far as the node knows.
	Level int64
	// Window is the start of the window of Total, in µs since 1970, with Offset subtracted. It is 0 for limits without
	// windows.
	Window int64
	// Carried is the number of units that were consumed before the window and count in it: units that earlier fixed
	// windows admitted above the limit, and units consumed under a limit of another kind that this limit replaced.
	Carried int64
	// Previous is the number of units that the node consumed in the window before Window. It is sent because peers may
	// have missed the last of these units, and nodes that joined later have missed all.
	Previous int64
	// AllPrevious is the number of units that all nodes consumed in the previous window, as far as the node knows. It is
	// 0 unless the limit is a sliding window.
	AllPrevious int64
	// Offset is the number of µs by which the windows of this key start later, if the limit is staggered.
	Offset int64
	// Reset is set if Total started because the key was reset.
	Reset bool
	// MaxAge is the maximum age of the tally when it was received, or 0 if it is unknown. The receiver sets it.
	MaxAge time.Duration
	// MinAge is the minimum age of the tally when it was received. The receiver sets it.
	MinAge time.Duration

	Delivery
	Comparison
}

// A Delivery has a node's local information about earlier tallies of the key. It is never sent.
type Delivery struct {
	Delivered int64 // the part of Total that was sent before
	SendLevel bool  // the level has to be sent even if peers know the total
	// KnownUnits is the number of this node's units that peers may know. It is the highest total that was sent before,
	// so it may be larger than Total, from which units may have been given back. A node that receives a tally through
	// an exchange copies KnownUnits from its own tally of the key into the received one, and sets HasKnownUnits.
	KnownUnits    int64
	HasKnownUnits bool
	// PeersUnknown is set if the consumption of peers is unknown.
	PeersUnknown bool
	// ReadAllNotes is set if the exchange must return all notes of peers for the key, because none were received yet. A
	// note is the text of a tally in an exchange.
	ReadAllNotes bool
	Added        time.Duration // uptime when the record was added
}

// A Comparison lets nodes that have received the same updates agree on a level.
type Comparison struct {
	Sum         int64  // of the totals, of all nodes that the sender knows, that grew in the last ledger.RecentFor
	Digest      uint16 // identifies these totals
	DrainedPart uint8  // fraction of a unit by which Level is too high, because it is a whole number, in 64ths
	SumValid    bool   // Sum and Digest can be used
	Recent      bool   // Total is one of these totals
}

// Reasons to refuse a tally that differs too much from the previous tally of the peer.
const (
	ReasonDecreased   = "a total that has decreased"
	ReasonGrewTooMuch = "a total that has grown more than possible"
)

// WhyImplausible returns the reason why a tally is implausible, or "" if it is plausible.
func (t *Tally) WhyImplausible(uptime time.Duration) string {
	switch {
	case t.Total < 0:
		return "a negative total"
	case t.Level < 0 || t.Carried < 0 || t.Previous < 0 || t.AllPrevious < 0:
		return "a negative level"
	case t.Start < 0 || t.Start > uptime+time.Second: // restarted totals may have a Start slightly in the future
		return "a start in the future"
	case t.MaxAge < 0:
		return "a negative age"
	}
	return ""
}
