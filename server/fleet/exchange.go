package fleet

import (
	"context"
	"time"
)

// An Exchange is where nodes leave notes for each other. Each node has one note per key, and a new note replaces the
// old one. redisstore.Board is one, in Redis.
type Exchange interface {
	// Exchange stores this node's notes under keys of 16 bytes, and calls received for each note that a peer stored under
	// one of them. key is an index into keys, and age is the time since the note was stored. An empty note leaves the
	// stored one as it is. Notes that received was called with before may be left out, unless all is set for the key. The
	// exchange may forget a note if none was stored under its key for the time keep. Without keys, Exchange only
	// checks that the exchange answers.
	//
	// missed has the indices of keys whose notes may not have been stored, and err is the reason. Keys of one group, see
	// [KeyGroups], are stored together and missed together. An err with a method Foreign() bool that returns true means
	// that another fleet stores notes there.
	Exchange(ctx context.Context, keys, notes []string, keep []time.Duration, all []bool,
		received func(key int, author, note string, age time.Duration)) (missed []int, err error)
}

// KeyGroups is the number of groups of keys that can be unreachable independently of each other. The first byte of a
// key, modulo KeyGroups, is its group.
const KeyGroups = 64

// A LossReporter is an Exchange that notices when it has lost notes, as after a restart of Redis without its data.
type LossReporter interface {
	// Lost returns the groups of keys that have lost notes since the last call, one bit each. Nodes store their notes
	// again.
	Lost() uint64
}

// A ClockSource is an Exchange with a clock that all nodes can read. Windows use it.
type ClockSource interface {
	// Date returns the time at some moment of the call.
	Date(ctx context.Context) (time.Time, error)
}

// MaxClockSkew is how far the clock of a node or store may differ from the fleet's before that is reported.
const MaxClockSkew = time.Second
