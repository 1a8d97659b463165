package fleet

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"
)

const (
	minSecret  = 16
	minMaxKeys = 1024
	minIdle    = time.Second
)

func (o *LedgerOptions) validate() error {
	if len(o.Secret) == 0 {
		o.Secret = make([]byte, 32)
		rand.Read(o.Secret)
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	if o.Idle == 0 {
		o.Idle = DefaultIdle
	}
	if o.Lag == 0 {
		o.Lag = DefaultLag
	}
	if o.LocalCap == 0 {
		o.LocalCap = 100
	}
	if o.Clock == nil {
		o.Clock = System()
	}
	if o.Epoch.IsZero() {
		o.Epoch = time.Now().Add(-o.Clock.Now())
	}
	if o.OnRefused == nil {
		o.OnRefused = logRefused
	}
	switch {
	case len(o.Secret) < minSecret:
		return fmt.Errorf("fleet: LedgerOptions.Secret has %d bytes: want at least %d, the same on all nodes", len(o.Secret), minSecret)
	case o.MaxKeys < minMaxKeys:
		return fmt.Errorf("fleet: LedgerOptions.MaxKeys %d: want at least %d, or 0 for %d", o.MaxKeys, minMaxKeys, DefaultMaxKeys)
	case o.Idle < minIdle:
		return fmt.Errorf("fleet: LedgerOptions.Idle %v: want at least %v, or 0 for %v", o.Idle, minIdle, DefaultIdle)
	case o.Lag < 0 || o.Lag > o.Idle:
		return fmt.Errorf("fleet: LedgerOptions.Lag %v: want at most Idle, which is %v, or 0 for %v", o.Lag, o.Idle, DefaultLag)
	case o.LocalCap < 1 || o.LocalCap > 100:
		return fmt.Errorf("fleet: LedgerOptions.LocalCap %d: want 1 to 100 percent, or 0 for 100", o.LocalCap)
	}
	return nil
}

func logRefused(from Peer, _ Tally, why string) {
	slog.Warn("headgate: a node says what cannot be true", "node", from.Name, "incarnation", from.Incarnation, "what", why)
}
