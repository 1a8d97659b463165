package fleet

import (
	"context"
	"fmt"
	"time"
)

// An Exchange stores notes that nodes write for each other. Each node has one note per key, and a new note replaces the
// old one. fleetredis.Exchange stores notes in Redis. The simulator implements its own Exchange.
type Exchange interface {
	// Exchange stores this node's notes, and calls received for each note that a peer stored under the same keys. The int
	// is the index in notes of this node's note with that key. Without notes, Exchange only checks that the store
	// responds.
	//
	// missed has the indices of notes that may not have been stored, and err is the reason. The notes of one group of
	// keys (see [KeyGroups]) are either all stored or all missed. A [*ForeignError] means that another fleet uses the
	// same name.
	Exchange(ctx context.Context, notes []Note, received func(int, PeerNote)) (missed []int, err error)
}

// A Note is a text that a node stores for its peers under a key, and a request for the peers' notes under this key.
type Note struct {
	Key string // 16 bytes
	// Text is the text to store. If it is empty, the stored note is not changed.
	Text string
	// Keep is the minimum time for which the exchange must keep a note after it was last stored.
	Keep time.Duration
	// ReadAll requests all notes of peers. Otherwise, notes that this node has received before may be omitted.
	ReadAll bool
}

// A PeerNote is a note of a peer.
type PeerNote struct {
	Author, Text string
	Age          time.Duration // time since the note was stored
}

// A ForeignError reports that a fleet with another secret uses an exchange under the same name.
type ForeignError struct {
	Name string // of both fleets
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf(
		"a fleet with another secret uses the name %q: give each fleet its own name, or all nodes the same secret", e.Name)
}

// KeyGroups is the number of groups of keys. Groups may be on different servers, so each can be unreachable while
// others are not. The group of a key is its first byte modulo KeyGroups.
const KeyGroups = 64

// A LossReporter is an Exchange that notices when it has lost notes, for example after a restart of Redis without its
// data.
type LossReporter interface {
	// Lost returns the groups of keys whose notes were lost since the last call, one bit each. The caller must store its
	// notes of these groups again.
	Lost() uint64
}

// A ClockSource is an Exchange with a clock that all nodes can read. Windows start by this clock.
type ClockSource interface {
	// Time returns the time at some moment between the start and the end of the call.
	Time(ctx context.Context) (time.Time, error)
}

// MaxClockSkew is the largest difference between the clock of a node or store and the fleet's clock that is not
// reported.
const MaxClockSkew = time.Second
