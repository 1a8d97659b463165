package limiters

import (
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/fleet"
)

// Report returns the statistics of sharing limits, for heartbeats and the status of the node. It is nil if this node
// shares none.
func (fl *Fleet) Report() *control.FleetFigures {
	if fl.members == nil {
		return nil
	}
	f := fl.Stats().FleetFigures
	f.Clamp()
	return &f
}

// ledgerFigures returns the figures of a ledger. The caller adds the figures of its transport.
func ledgerFigures(mode string, s *fleet.LedgerStats) control.SyncFigures {
	return control.SyncFigures{
		Mode: mode, LagMS: milliseconds(s.Lag), LagMaxMS: milliseconds(s.LagMax), Over: s.Over, OverMax: s.OverMax,
		Applied: s.Applied, Keys: int64(s.Keys), Waiting: int64(s.Waiting), Refused: s.Refused, Evicted: s.Evicted,
		Full: s.Full, Lookups: s.Lookups, LookupWaits: s.LookupWaits, LookupsDropped: s.LookupsDropped,
	}
}

// milliseconds returns d in milliseconds, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
