package fleet

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// LedgerOptions configure the counters of the limiters in packages async, gossip and region.
type LedgerOptions struct {
	// Secret is used to hash the keys of limits. All nodes need the same secret, of at least 16 bytes. Default a random
	// secret, which is enough for a single node.
	Secret []byte
	// MaxKeys is the maximum number of keys to remember. At least 1024. Default DefaultMaxKeys.
	MaxKeys int
	// Idle is how long a key must be unused, with no consumption left, before its counter is reset to 0. After twice
	// that time the key is dropped. It must be longer than Lag. Default DefaultIdle.
	Idle time.Duration
	// Lag is the maximum delay of updates in normal operation. Default DefaultLag.
	Lag time.Duration
	// LocalCap is the percentage of a limit's burst and rate that a single node may use, 1 to 100. It bounds the
	// over-admission before nodes know of each other's consumption, but it also limits clients that use only one node.
	// Default 100.
	LocalCap int
	// Members counts the known and the live nodes, to divide limits while some nodes are unreachable. Default this node
	// only.
	Members Members
	// Clock is the clock and its timers. Default clock.System.
	Clock clock.Clock
	// Rand returns random numbers, for the names of concurrency leases. Default math/rand/v2.
	Rand func() uint64
	// OnRefused is called with the reason when an implausible update is refused, at most once a second. Default logs at
	// Warn.
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
