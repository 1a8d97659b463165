package memstore

import (
	"fmt"
	"time"
)

// DefaultMaxBytes is how much a store keeps for its counters unless told otherwise.
const DefaultMaxBytes = 1 << 30

// minBytes lets every shard have some tables and records.
const minBytes = 8 << 20

// Options are the settings of a Store. The zero Options are good.
type Options struct {
	// MaxBytes is the most memory that counters may take. At least 8 MiB. Default DefaultMaxBytes, which is room for 25
	// to 50 million token buckets.
	MaxBytes int64
	// Now is the clock, at a time after 1970. Default the system's monotonic clock, set to its wall clock when the store is
	// made. A clock that goes back adds no capacity; one that goes ahead by mistake, and back, stands still for keys until it
	// has caught up. It is called by every goroutine that decides and by the store's own.
	Now func() time.Time
}

func (o *Options) validate() error {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxBytes < minBytes {
		return fmt.Errorf("memstore: MaxBytes %d: want at least %d, or 0 for %d", o.MaxBytes, minBytes, DefaultMaxBytes)
	}
	return nil
}
