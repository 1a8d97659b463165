package ledger

import (
	"time"

	"github.com/headgate/headgate"
)

// A Key stands for the key of a check wherever nodes speak of it: a keyed hash of its text, the same on all nodes that
// have the same secret. Nobody without the secret can tell whose it is, or choose keys that collide; among a hundred
// million keys the odds of one colliding pair are below 1 in 10^22.
type Key [16]byte

// A Tally is what one node says of one key. It is cumulative: the latest one says all that those before it did, so that
// one that is lost only delays, and one that comes twice adds nothing.
type Tally struct {
	Key Key
	// Limit is what the node counts the key by. It may be left out (the zero Limit) where whoever hears of the key is sure
	// to count it already.
	Limit headgate.Limit
	// Start names the record that Total is of, by when it began: since the node's incarnation did, by its own clock, in whole
	// microseconds. A node begins a record again when there is nothing left in it, for every window if the limit has windows, and on Reset.
	Start time.Duration
	// Total is what this node has consumed since Start. It only grows.
	Total int64
	// Level is what the node counts as consumed now, by itself and by all it has heard of.
	Level int64
	// Window is, for limits that have windows, when the one that Total is of began, in µs since 1970 and less Offset.
	Window int64
	// Carried is, for limits that have windows, what was consumed before this one and counts in it: for a fixed window, what was let
	// pass beyond the limit in the windows before; and what was consumed by a limit of another kind that this one replaced.
	Carried int64
	// Offset is, for a staggered window, by how much it begins later than others, in µs.
	Offset int64
	// Reset tells that the record began because the key was reset.
	Reset bool
	// Age is for how long this has been so when it arrives. Whoever brings the tally sets it, and leaves it at 0 if he
	// cannot tell.
	Age time.Duration

	Acknowledged int64 // of Total before this
	SendLevel    bool  // the level matters, though the total may be known
	// MayKnow is, in what Changes returns, how much anybody was told before; in what is heard through an exchange, how much of what
	// this node consumed the writer may know, if bounded.
	MayKnow int64
	Bounded bool

	// Unlearned says that it is not known what others consumed, all that nothing of theirs was heard, and born is when the record
	// was added.
	Unlearned, AllNotes bool
	Added               time.Duration
	// Sum is how many units the sender counts in recent records, see agree, and digest says which those are. sure tells that
	// both are to go by, and recent that the record that Total is of is among them.
	Sum              int64
	Digest           uint16
	DrainedPart      uint8 // of the last unit of Level has drained, in 64ths
	SumValid, Recent bool
}

// seen is what a record knows of one peer.
type seen struct {
	peer  int32
	gen   uint32 // of the peer's place; see peers
	start time.Duration
	total int64
	said  time.Duration // the peer's uptime when it said so
	// waste and heard are what the record's waste and time were when the peer was last heard of.
	waste, heard int64
	recentAt     int64 // when it was last heard to have grown, if it is recent; see agree
	level        int64 // what the record's waste was when the levels were last the same

	// least and most are by how much the peer was above us, in all that was heard of it since a time; see level.
	least, most, since int64
	times              int32
	leaped             bool // the latest total was one that cannot be
	past               bool // it was of a window that was over
	ahead              bool // it was of a window that had not begun here
	older              bool // its record is older than what this node has heard
}
