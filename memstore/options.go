package memstore

import (
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// DefaultMaxBytes is the default of Options.MaxBytes.
const DefaultMaxBytes = 1 << 30

// minBytes is the minimum of MaxBytes. It is enough for some keys of each kind in every shard.
const minBytes = 8 << 20

// Options are the settings of a Store. The zero value is ready to use.
type Options struct {
	// MaxBytes is the memory limit of the counters, at least 8 MiB. Default DefaultMaxBytes, which is enough for 25
	// to 50 million token buckets.
	MaxBytes int64
	// Now returns the time, which must be after 1970. Default: the system's monotonic clock, set to the wall clock in New.
	// In a bubble of testing/synctest, the default is the bubble's clock. Other tests may use Now of a limittest.Clock.
	// If the clock goes back, a key gets no units back until the clock has caught up with the key's last use. Now must be
	// safe for concurrent use.
	Now func() time.Time
	// Algorithms has custom algorithms by their numbers, from headgate.FirstCustom on. Default none. A limit selects one
	// by its field Algorithm. Each key of such a limit has a record of 128 bytes.
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
			return fmt.Errorf("memstore: Algorithms[%d]: want an algorithm at headgate.FirstCustom (%d) or above",
				number, headgate.FirstCustom)
		}
	}
	return nil
}
