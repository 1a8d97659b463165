package ledger

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
)

const (
	minSecret  = 16
	minMaxKeys = 1024
	minIdle    = time.Second
)

func validate(o *fleet.LedgerOptions) error {
	if len(o.Secret) == 0 {
		o.Secret = make([]byte, 32)
		rand.Read(o.Secret)
	}
	o.MaxKeys = cmp.Or(o.MaxKeys, fleet.DefaultMaxKeys)
	o.Idle = cmp.Or(o.Idle, fleet.DefaultIdle)
	o.Lag = cmp.Or(o.Lag, fleet.DefaultLag)
	o.LocalCap = cmp.Or(o.LocalCap, 100)
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Rand == nil {
		o.Rand = mathrand.Uint64
	}
	if o.OnRefused == nil {
		o.OnRefused = logRefused
	}
	switch {
	case len(o.Secret) < minSecret:
		return fmt.Errorf("fleet: LedgerOptions.Secret has %d bytes: want at least %d, the same on all nodes",
			len(o.Secret), minSecret)
	case o.MaxKeys < minMaxKeys:
		return fmt.Errorf("fleet: LedgerOptions.MaxKeys %d: want at least %d, or 0 for %d", o.MaxKeys, minMaxKeys,
			fleet.DefaultMaxKeys)
	case o.Idle < minIdle:
		return fmt.Errorf("fleet: LedgerOptions.Idle %v: want at least %v, or 0 for %v", o.Idle, minIdle, fleet.DefaultIdle)
	case o.Lag < 0 || o.Lag > o.Idle:
		return fmt.Errorf("fleet: LedgerOptions.Lag %v: want at most Idle, which is %v, or 0 for %v", o.Lag, o.Idle,
			fleet.DefaultLag)
	case o.LocalCap < 1 || o.LocalCap > 100:
		return fmt.Errorf("fleet: LedgerOptions.LocalCap %d: want 1 to 100 percent, or 0 for 100", o.LocalCap)
	}
	return nil
}

func logRefused(from fleet.Peer, why string) {
	slog.Warn("ignoring an impossible update of a peer", "node", from.Name, "incarnation", from.Incarnation,
		"reason", why)
}
