package fleettest

import (
	"time"
)

// Secret is the secret of all nodes in tests.
var Secret = []byte("a secret that only tests know")

// Members is a fleet.Members with fixed numbers.
type Members struct{ LiveNodes, KnownNodes int }

// Live implements fleet.Members.
func (m *Members) Live() int { return m.LiveNodes }

// Known implements fleet.Members.
func (m *Members) Known() int { return m.KnownNodes }

// SharedLimits has a limit for each algorithm that nodes share.
var SharedLimits = []string{
	"20/h", "20/h gcra", "20/h fixed-window", "20/h fixed-window staggered",
	"20/h sliding-window",
}

// StartOfHour waits until an hour has just begun, so that no window ends during a test.
func StartOfHour() {
	time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + time.Second)))
}
