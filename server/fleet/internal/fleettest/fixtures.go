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

// SharedLimits are limits that nodes can share: one for each such algorithm.
var SharedLimits = []string{
	"20/h", "20/h gcra", "20/h fixed-window", "20/h fixed-window staggered",
	"20/h sliding-window",
}

// WaitForNextHour sleeps until one second after the next full hour, so that no window of an hour ends during a test.
// Call it in a synctest bubble, where the sleep takes no real time.
func WaitForNextHour() {
	time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + time.Second)))
}
