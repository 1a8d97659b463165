package sim

import (
	"context"
	"time"

	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/fleetredis"
)

// bugs are mistakes that a test plants in the simulated code, to prove that the simulation finds them.
type bugs struct {
	loseUpdates  bool // Redis does not count the units of one in four calls
	longLeases   bool // nodes use the units of leases for 100 ms, although they expire before
	deafNewcomer bool // for two seconds, nodes that join do not read the notes of other nodes
	partialTakes bool // Redis takes the first limit of a request that the second denies
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
