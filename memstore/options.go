package memstore

import (
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// DefaultMaxBytes is the default of Options.MaxBytes.
const DefaultMaxBytes = 1 << 30

// minBytes is enough for some tables and records in every shard.
const minBytes = 8 << 20

// Options are the settings of a Store. The zero value is ready to use.
type Options struct {
	// MaxBytes is the memory limit of the counters, at least 8 MiB. Default DefaultMaxBytes, which is enough for 25
	// to 50 million token buckets.
	MaxBytes int64
	// Now returns the time, which is after 1970. Default: the system's monotonic clock, set to its wall clock in New; in
	// a bubble of testing/synctest that is the bubble's clock. Other tests may use a limittest.Clock: Now: clock.Now. A
	// clock that goes back adds no capacity. After a clock has jumped ahead and back, time stands still for the keys
	// used between until it catches up. Now is called by every goroutine that decides and by those of the store.
	Now func() time.Time
	// Algorithms are the program's own algorithms, by their numbers from headgate.FirstCustom on. Default none. A limit
	// names one in its field Algorithm. Each key of such a limit has a record of 128 bytes.
	Algorithms map[headgate.Algorithm]algorithm.Custom
}

func (o *Options) validate() error {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxBytes < minBytes {
		return fmt.Errorf("memstore: MaxBytes %d: want at least %d, or 0 for %d", o.MaxBytes, minBytes, DefaultMaxBytes)
	}
	for number, custom := range o.Algorithms {
		if number < headgate.FirstCustom || custom == nil {
			return fmt.Errorf("memstore: Algorithms[%d]: want an algorithm at headgate.FirstCustom (%d) or above", number, headgate.FirstCustom)
		}
	}
	return nil
}
