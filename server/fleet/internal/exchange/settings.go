package exchange

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// Settings are the settings shared by limiters that use an exchange.
type Settings struct {
	// Interval is the maximum delay until peers know of consumption, not counting the time of the exchanges themselves.
	// There are exchangesPerInterval exchanges in an interval.
	Interval time.Duration
	MaxKeys  int           // maximum number of keys per exchange
	Deadline time.Duration // timeout of an exchange
	// MaxMissed is the number of intervals without success after which the peers count as unreachable.
	MaxMissed int
	Rand      func(n int64) int64 // returns a random number from 0 to n-1
	OnEvent   func(fleet.Event)
}

// DefaultMaxKeys is the default of Settings.MaxKeys.
const DefaultMaxKeys = 4096

const (
	minInterval, maxInterval = 10 * time.Millisecond, 20 * time.Second
	// The default deadline is one interval within these bounds. A deadline that is set may be outside of them.
	minDefaultDeadline, maxDefaultDeadline = 100 * time.Millisecond, 2 * time.Second
	maxKeysLimit                           = 1 << 16
	// DefaultMaxMissed is the default of Settings.MaxMissed.
	DefaultMaxMissed = 5
)

// Validate sets defaults and checks the settings. Errors begin with prefix, the caller's name for its options, for
// example "async: Options".
func (s *Settings) Validate(prefix string, defaultInterval time.Duration) error {
	s.Interval = cmp.Or(s.Interval, defaultInterval)
	defaultDeadline := min(max(s.Interval, minDefaultDeadline), maxDefaultDeadline)
	s.MaxKeys = cmp.Or(s.MaxKeys, DefaultMaxKeys)
	s.Deadline = cmp.Or(s.Deadline, defaultDeadline)
	s.MaxMissed = cmp.Or(s.MaxMissed, DefaultMaxMissed)
	if s.Rand == nil {
		s.Rand = rand.Int64N
	}
	if s.OnEvent == nil {
		s.OnEvent = logEvent
	}
	switch {
	case s.Interval < minInterval || s.Interval > maxInterval:
		return fmt.Errorf("%s.Interval %v: want %v to %v, or 0 for %v", prefix, s.Interval, minInterval, maxInterval,
			defaultInterval)
	case s.MaxKeys < 1 || s.MaxKeys > maxKeysLimit:
		return fmt.Errorf("%s.MaxKeys %d: want 1 to %d, or 0 for %d", prefix, s.MaxKeys, maxKeysLimit, DefaultMaxKeys)
	case s.Deadline < time.Millisecond:
		return fmt.Errorf("%s.Deadline %v: want at least 1ms, or 0 for %v", prefix, s.Deadline, defaultDeadline)
	case s.MaxMissed < 1:
		return fmt.Errorf("%s.MaxMissed %d: want at least 1, or 0 for %d", prefix, s.MaxMissed, DefaultMaxMissed)
	}
	return nil
}

// ValidateName checks the name of a node or region.
func ValidateName(field, name string) error {
	if name == "" || len(name) > fleet.MaxNameBytes {
		return fmt.Errorf("%s %q: want a unique name of 1 to %d bytes", field, name[:min(len(name), fleet.MaxNameBytes)],
			fleet.MaxNameBytes)
	}
	return nil
}

// exchangesPerInterval is the number of exchanges per interval. It must be at least 2, because an update waits for the
// next exchange of its sender, and then for the next exchange of its receiver.
const exchangesPerInterval = 4

// Pauses returns a function that returns the pause until the next exchange. Pauses are random, so that nodes do not all
// exchange at the same time.
func (s *Settings) Pauses() func() time.Duration {
	period := int64(s.Interval / exchangesPerInterval)
	return func() time.Duration { return time.Duration(period - s.Rand(period/5+1)) }
}

// UnreachableAfter returns the time without success after which the peers count as unreachable.
func (s *Settings) UnreachableAfter() time.Duration { return time.Duration(s.MaxMissed) * s.Interval }

// SetLedgerDefaults sets defaults of the ledger's options that depend on the interval.
func (s *Settings) SetLedgerDefaults(o *fleet.LedgerOptions) {
	o.Lag = cmp.Or(o.Lag, 2*s.Interval)
	o.Idle = cmp.Or(o.Idle, max(fleet.DefaultIdle, 4*o.Lag))
}
