package fleet

import (
	"context"
	"fmt"
	"time"
)

// An Exchange stores notes that nodes write for each other. Each node has one note per key, and a new note replaces the
// old one. fleetredis.Exchange stores them in Redis. A simulator has an Exchange of its own.
type Exchange interface {
	// Exchange stores this node's notes, and calls received for each note that a peer stored under one of their keys. The
	// int is the index in notes of the note with the same key. Without notes, Exchange only checks that it gets a
	// response.
	//
	// missed has the indices of notes that may not have been stored, and err is the reason. Notes of one group of keys,
	// see [KeyGroups], are stored together and missed together. A [*ForeignError] means that another fleet uses the
	// exchange under the same name.
	Exchange(ctx context.Context, notes []Note, received func(int, PeerNote)) (missed []int, err error)
}

// A Note is what a node stores for its peers under a key. It also says which notes of peers the node wants to receive.
type Note struct {
	Key string // 16 bytes
	// Text is the note. If it is empty, the stored note stays as it is.
	Text string
	// Keep is the minimum time for which the exchange must keep a note after it was last stored.
	Keep time.Duration
	// ReadAll asks for all notes of peers. Otherwise, notes that were received before may be left out.
	ReadAll bool
}

// A PeerNote is a note of a peer.
type PeerNote struct {
	Author, Text string
	Age          time.Duration // since it was stored
}

// A ForeignError reports that a fleet with another secret uses an exchange under the same name.
type ForeignError struct {
	Name string // of both fleets
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf(
		"a fleet with another secret uses the name %q: give each fleet its own name, or all nodes one secret", e.Name)
}

// KeyGroups is the number of groups of keys that can be unreachable independently of each other. The first byte of a
// key, modulo KeyGroups, is its group.
const KeyGroups = 64

// A LossReporter is an Exchange that notices when it has lost notes, for example after a restart of Redis without its
// data.
type LossReporter interface {
	// Lost returns the groups of keys that have lost notes since the last call, one bit each. Nodes store their notes
	// again.
	Lost() uint64
}

// A ClockSource is an Exchange with a clock that all nodes can read. Windows use it.
type ClockSource interface {
	// Time returns the time at some moment of the call.
	Time(ctx context.Context) (time.Time, error)
}

// MaxClockSkew is how far the clock of a node or store may differ from the fleet's before that is reported.
const MaxClockSkew = time.Second
