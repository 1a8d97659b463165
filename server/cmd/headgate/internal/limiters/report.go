package limiters

import (
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/fleet"
)

// Report returns the statistics for heartbeats and the status of the node, nil if this node shares no limits.
func (fl *Fleet) Report() *control.FleetStats {
	if fl.nodeCounts == nil {
		return nil
	}
	f := fl.Stats().FleetStats
	f.Clamp()
	return &f
}

// ledgerStats returns the statistics of a ledger. The caller must add the statistics of the transport.
func ledgerStats(mode string, s *fleet.LedgerStats) control.SyncStats {
	return control.SyncStats{
		Mode: mode, LagMS: milliseconds(s.Lag), LagMaxMS: milliseconds(s.LagMax), ExcessUnits: s.Over, MaxExcess: s.OverMax,
		Applied: s.Applied, Keys: int64(s.Keys), Waiting: int64(s.Waiting), Refused: s.Refused, Evicted: s.Evicted,
		RefusedKeys: s.Full, Lookups: s.Lookups, LookupWaits: s.LookupWaits, LookupsDropped: s.LookupsDropped,
	}
}

// milliseconds returns d in milliseconds, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
