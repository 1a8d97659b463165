package guard

import (
	"context"
	"time"

	"github.com/headgate/headgate"
)

// A Sharded store consists of several shards, which fail independently.
type Sharded interface {
	// Shard returns the name of the shard that decides a check. There should be few names. Names appear in events and
	// logs. A shard that moves to another server may get another name.
	Shard(c headgate.Check) string
}

// A Prober is a store that can test a shard without a check.
type Prober interface {
	// Probe returns nil if the shard works. It returns when ctx ends.
	Probe(ctx context.Context, shard string) error
}

// A Granter is a store from which callers can take units in advance, and hand them out themselves. redisstore.Store is
// a Granter.
type Granter interface {
	// Grant takes at least c.Cost units or none, at most want, and at most 1/share of the remaining units.
	Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error)
}

// Traffic is implemented by stores that know when they have sent and received data. It lets the guard distinguish a
// slow shard from a process that is too busy to send and receive.
//
// With Traffic, the deadline of a call begins when the call is sent, and the call does not end while received data is
// unread. If the shard sent data within the last deadline, the response may have been read and not have reached its
// caller yet. Then the call lasts until the shard has been silent for a deadline, so at most one deadline longer. A
// call never lasts longer than ten deadlines. If it was not sent, or its response was not read by then, this is not a
// failure of the store.
type Traffic interface {
	// LastSent returns when something was last sent to a shard, or the zero time if that is not known.
	LastSent(shard string) time.Time
	// LastReceived returns when something was last received from a shard, or the zero time if that is not known.
	LastReceived(shard string) time.Time
	// HasUnread reports whether a shard has sent something that was not read yet.
	HasUnread(shard string) bool
}
