package guard

import (
	"context"
	"time"

	"github.com/headgate/headgate"
)

// Sharded is a store that names the shard that decides a check. Shards fail independently. Their names are for people,
// and there are few. A shard that moves to another server may get another name.
type Sharded interface {
	Shard(c headgate.Check) string
}

// A Prober is a store that reports whether a shard works, without a check. Probe returns when ctx ends.
type Prober interface {
	Probe(ctx context.Context, shard string) error
}

// A Granter is a store that lets units be taken ahead of their use. See redisstore.Store.Grant.
type Granter interface {
	Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error)
}

// Traffic is implemented by stores that know what they have sent and received. With it the guard tells a slow shard
// from a process that is too busy to send and receive. The deadline of a call then begins when the call is sent, and
// does not end it while received data is unread. If the shard sent something within the last deadline, the response may
// have been read and not reached its caller yet: the call then lasts until the shard has been silent for a deadline, at
// most one deadline longer. A call lasts at most ten deadlines. If it was not sent or its response was not read by
// then, that is not a failure of the store.
type Traffic interface {
	// LastSent returns when something was last sent to a shard, or the zero time if that is not known.
	LastSent(shard string) time.Time
	// LastReceived returns when something was last received from a shard, or the zero time if that is not known.
	LastReceived(shard string) time.Time
	// HasUnread reports whether a shard has sent something that was not read yet.
	HasUnread(shard string) bool
}
