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
	Interval  time.Duration // time within which peers learn of consumption, without network delays
	MaxKeys   int           // maximum number of keys per exchange
	Deadline  time.Duration // timeout of an exchange
	MaxMissed int           // intervals without a successful exchange after which the exchange is unreachable
	Rand      func(n int64) int64
	OnEvent   func(fleet.Event)
}

// DefaultMaxKeys is the default of Settings.MaxKeys.
const DefaultMaxKeys = 4096

const (
	minInterval, maxInterval = 10 * time.Millisecond, 20 * time.Second
	minDeadline, maxDeadline = 100 * time.Millisecond, 2 * time.Second
	maxMaxKeys               = 1 << 16
	// DefaultMaxMissed is the default of Settings.MaxMissed.
	DefaultMaxMissed = 5
)

// Validate sets defaults and checks the settings. options is the name of the options in errors. interval is the default
// of Interval.
func (s *Settings) Validate(options string, interval time.Duration) error {
	s.Interval = cmp.Or(s.Interval, interval)
	s.MaxKeys = cmp.Or(s.MaxKeys, DefaultMaxKeys)
	s.Deadline = cmp.Or(s.Deadline, min(max(s.Interval, minDeadline), maxDeadline))
	s.MaxMissed = cmp.Or(s.MaxMissed, DefaultMaxMissed)
	if s.Rand == nil {
		s.Rand = rand.Int64N
	}
	if s.OnEvent == nil {
		s.OnEvent = logEvent
	}
	switch {
	case s.Interval < minInterval || s.Interval > maxInterval:
		return fmt.Errorf("%s.Interval %v: want %v to %v, or 0 for %v", options, s.Interval, minInterval, maxInterval,
			interval)
	case s.MaxKeys < 1 || s.MaxKeys > maxMaxKeys:
		return fmt.Errorf("%s.MaxKeys %d: want 1 to %d, or 0 for %d", options, s.MaxKeys, maxMaxKeys, DefaultMaxKeys)
	case s.Deadline < time.Millisecond:
		return fmt.Errorf("%s.Deadline %v: want at least 1ms, or 0 for an interval", options, s.Deadline)
	case s.MaxMissed < 1:
		return fmt.Errorf("%s.MaxMissed %d: want at least 1, or 0 for %d", options, s.MaxMissed, DefaultMaxMissed)
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

// perInterval is the number of exchanges per interval. It must be at least 2, because an update waits for the next
// exchange of its sender, and then for the next exchange of its receiver.
const perInterval = 4

// Pauses returns a function that returns the pause until the next exchange. Pauses are random, so that nodes do not all
// exchange at the same time.
func (s *Settings) Pauses() func() time.Duration {
	period := int64(s.Interval / perInterval)
	return func() time.Duration { return time.Duration(period - s.Rand(period/5+1)) }
}

// Patience is the time for which exchanges may fail until the exchange counts as unreachable.
func (s *Settings) Patience() time.Duration { return time.Duration(s.MaxMissed) * s.Interval }

// ForLedger sets defaults of the ledger's options that depend on the interval.
func (s *Settings) ForLedger(o *fleet.LedgerOptions) {
	o.Lag = cmp.Or(o.Lag, 2*s.Interval)
	o.Idle = cmp.Or(o.Idle, max(fleet.DefaultIdle, 4*o.Lag))
}
