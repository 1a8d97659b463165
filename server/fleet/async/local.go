package async

import (
	"time"

	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
)

// A Local decides only by this node's own counters, like a Limiter without peers.
type Local struct {
	ledger.Decider
	ledger *ledger.Ledger
}

// NewLocal returns a Local.
func NewLocal(o fleet.LedgerOptions) (*Local, error) {
	l, err := ledger.New(o, fleet.Peer{}, false)
	if err != nil {
		return nil, err
	}
	return &Local{Decider: l, ledger: l}, nil
}

// Degrade makes all later decisions follow the policies of their checks, like those of a Limiter whose exchange is
// unreachable. These decisions are Degraded. Denied callers may retry after the given time.
func (l *Local) Degrade(retry time.Duration) { l.ledger.SetUnreachable(true, retry) }

// Close makes later calls fail with headgate.ErrClosed.
func (l *Local) Close() error { return l.ledger.Close() }
