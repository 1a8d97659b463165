package guard

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
)

// Defaults for Options that are zero.
const (
	DefaultDeadline  = 20 * time.Millisecond
	DefaultDenyCache = time.Second
)

// Options are the settings of a Guard. The zero value is ready to use.
type Options struct {
	// Deadline is the maximum time of a call of the store, including the time for which its caller waits for other
	// callers. Default DefaultDeadline.
	Deadline time.Duration
	// DenyCache is the longest time for which a denial is remembered, at most a minute. Default DefaultDenyCache. If it is
	// negative, denials are not remembered, and callers of one key do not wait for each other.
	DenyCache time.Duration
	// Local decides checks with the policy headgate.Local when their shard is unavailable. Default: a memstore with
	// 64 MiB.
	Local headgate.Limiter
	// Nodes returns how many nodes share a limit. It is called for every decision of the policy Local without a
	// Check.Safe. Default: one node.
	Nodes func() int
	// OnEvent is called for events of the store, by one goroutine. If it is too slow, events are dropped and counted. It
	// must not close the guard. Default: log them with slog at Warn.
	OnEvent func(Event)
	// OnCall is called after each call of a shard, even a failed one, with its duration. It must be fast. Default:
	// nothing.
	OnCall func(shard string, took time.Duration)
	// Now returns the time for the deny cache and the default Local. Default: the time of Clock.
	Now func() time.Time
	// Clock is the clock of deadlines and probes. Default clock.System.
	Clock clock.Clock
	// Rand returns a random number below n. It spreads probes. Default math/rand/v2.
	Rand func(n int64) int64
	// Hash hashes the keys of the deny cache. Simulators set it to make their runs repeatable. Default: a hash with a
	// random seed, so that clients cannot choose colliding keys.
	Hash func(key string) uint64
}

// localBytes is the memory limit of the default Options.Local.
const localBytes = 64 << 20

func (o *Options) validate() error {
	o.Deadline = cmp.Or(o.Deadline, DefaultDeadline)
	if o.Deadline < 0 {
		return fmt.Errorf("guard: Deadline %v: want more than 0, or 0 for %v", o.Deadline, DefaultDeadline)
	}
	o.DenyCache = cmp.Or(o.DenyCache, DefaultDenyCache)
	if o.DenyCache > time.Minute || o.DenyCache > 0 && o.DenyCache < time.Microsecond {
		return fmt.Errorf("guard: DenyCache %v: want 1µs to 1m, 0 for %v, or less for none", o.DenyCache, DefaultDenyCache)
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Rand == nil {
		o.Rand = rand.Int64N
	}
	return nil
}

var errNoStore = errors.New("guard: no store to guard")
