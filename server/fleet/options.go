package fleet

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// LedgerOptions configure the counters of the limiters in packages async, gossip and region.
type LedgerOptions struct {
	// Secret is used to hash the keys of limits. It has at least 16 bytes, and must be the same on all nodes. Default a
	// random secret, which is sufficient for a single node.
	Secret []byte
	// MaxKeys is the maximum number of keys in memory. At least 1024. Default DefaultMaxKeys.
	MaxKeys int
	// Idle is the time after which an unused key that has drained starts a new total. After twice this time, the key is
	// dropped. It must be at least Lag. Default DefaultIdle.
	Idle time.Duration
	// Lag is the maximum delay of updates in normal operation. Default DefaultLag.
	Lag time.Duration
	// LocalCap is the percentage of a limit's burst and rate that a single node may use, 1 to 100. A lower value reduces
	// over-admission before nodes have received each other's updates, but it also limits clients that use only one node.
	// Default 100.
	LocalCap int
	// Members counts the known and the live nodes. Limits are divided by these numbers while some nodes are unreachable.
	// Default nil: only this node.
	Members Members
	// Clock provides the time and timers. Default clock.System.
	Clock clock.Clock
	// Rand returns random numbers for the lease identifiers of concurrency limits. Default math/rand/v2.
	Rand func() uint64
	// OnRefused is called with the reason when an implausible update is refused, at most once a second. By default, this
	// is logged with level Warn.
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
