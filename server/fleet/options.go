package fleet

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// LedgerOptions are the settings of the counters that async, gossip and region decide by.
type LedgerOptions struct {
	// Secret keys the hash of keys. All nodes need the same one, of at least 16 bytes. Default a random one, for a single
	// node.
	Secret []byte
	// MaxKeys is the most keys to remember. At least 1024. Default DefaultMaxKeys.
	MaxKeys int
	// Idle is how long a drained key must be unused until its total starts again at 0. After twice that time the key is
	// dropped. It must be longer than Lag. Default DefaultIdle.
	Idle time.Duration
	// Lag is how late updates normally are at most. Default DefaultLag.
	Lag time.Duration
	// LocalCap is the percentage of a limit's burst and rate that a single node may use, 1 to 100. It bounds the
	// over-admission before nodes know of each other's consumption, but also what a client gets that uses only one node.
	// Default 100.
	LocalCap int
	// Members counts the nodes that share a limit when some of them are unreachable. Default this node only.
	Members Members
	// Clock is the clock and its timers. Default clock.System.
	Clock clock.Clock
	// Rand returns random numbers, for the names of concurrency leases. Default math/rand/v2.
	Rand func() uint64
	// OnRefused is called at most once a second for an update that cannot be true, with the reason. Default logs at Warn.
	OnRefused func(from Peer, reason string)
}

// Defaults for LedgerOptions that are zero.
const (
	DefaultMaxKeys = 1 << 20
	DefaultIdle    = time.Minute
	DefaultLag     = time.Second
)

// Fingerprint returns a number that differs between secrets and does not reveal them.
func Fingerprint(secret []byte) uint64 {
	sum := sha256.Sum256(append([]byte("headgate fleet fingerprint "), secret...))
	return binary.LittleEndian.Uint64(sum[:])
}
