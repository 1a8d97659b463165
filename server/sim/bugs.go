package sim

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/fleetredis"
	"github.com/headgate/headgate/server/sim/virtual"
)

// bugs are mistakes that a test plants in the simulated code, to prove that the simulation finds them.
type bugs struct {
	loseUpdates  bool // Redis, or a node that counts alone, does not count the units of one in four calls
	slowClocks   bool // nodes measure the age of leases with a slow clock, so they use units after their expiry
	deafNewcomer bool // for two seconds, nodes that join do not read the notes of other nodes
	partialTakes bool // Redis, or a node, takes the first limit of a request that the second denies

	start func(*world) // called at the start of the traffic
}

// A slowClock runs at half the speed of the clock of its host.
type slowClock struct{ *virtual.Host }

// Now implements clock.Clock.
func (c slowClock) Now() time.Time { return virtual.Epoch.Add(c.Host.Now().Sub(virtual.Epoch) / 2) }

// Since implements clock.Clock.
func (c slowClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// A forgetfulLimiter gives the units of one in four calls back.
type forgetfulLimiter struct {
	headgate.Limiter
	calls int
}

// Take implements headgate.Limiter.
func (l *forgetfulLimiter) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	d, err := l.Limiter.Take(ctx, c)
	if l.calls++; l.calls%4 == 0 && err == nil && d.Allowed {
		err = l.Give(ctx, c, d.Receipt)
	}
	return d, err
}

// TakeAll implements headgate.Limiter.
func (l *forgetfulLimiter) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	before := len(dst)
	dst, err := l.Limiter.TakeAll(ctx, checks, dst)
	if l.calls++; l.calls%4 == 0 && err == nil && headgate.Allowed(dst[before:]) {
		err = l.Give(ctx, checks[0], dst[before].Receipt)
	}
	return dst, err
}

// A partialLimiter takes the first check of a call that is denied.
type partialLimiter struct{ headgate.Limiter }

// TakeAll implements headgate.Limiter.
func (l *partialLimiter) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	before := len(dst)
	dst, err := l.Limiter.TakeAll(ctx, checks, dst)
	if err == nil && !headgate.Allowed(dst[before:]) {
		_, err = l.Take(ctx, checks[0])
	}
	return dst, err
}

// deafTime is how long a newcomer with the bug deafNewcomer is deaf.
const deafTime = 2 * time.Second

type redisExchange = fleetredis.Exchange

// A deafExchange drops the notes of peers until a time.
type deafExchange struct {
	*redisExchange
	isDeaf func() bool
}

// Exchange implements fleet.Exchange.
func (x *deafExchange) Exchange(
	ctx context.Context, notes []fleet.Note, received func(int, fleet.PeerNote),
) (missed []int, err error) {
	if x.isDeaf() {
		received = func(int, fleet.PeerNote) {}
	}
	return x.redisExchange.Exchange(ctx, notes, received)
}
