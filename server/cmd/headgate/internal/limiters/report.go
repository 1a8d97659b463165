package limiters

import (
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/telemetry"
)

// Report returns the statistics of sharing limits, for heartbeats. It is nil if this node shares none.
func (fl *Fleet) Report() *control.FleetFigures {
	f := fl.Stats()
	if fl.members == nil && f.Lease == nil && len(f.Sync) == 0 {
		return nil
	}
	result := &control.FleetFigures{Live: int64(f.Live), Known: int64(f.Known)}
	for i := range f.Sync {
		result.Sync = append(result.Sync, syncFigures(&f.Sync[i]))
	}
	if l := f.Lease; l != nil {
		result.Leases = &control.LeaseFigures{
			Keys: l.Keys, Calls: l.Calls, Failed: l.Failures, Granted: l.Granted, Returned: l.Returned, Expired: l.Expired,
		}
	}
	result.Clamp()
	return result
}

func syncFigures(n *telemetry.Sync) control.SyncFigures {
	return control.SyncFigures{
		Mode: n.Mode, Up: n.Up, LagMS: milliseconds(n.Lag), LagMaxMS: milliseconds(n.LagMax), Over: n.Over,
		OverMax: n.OverMax, Applied: n.Applied, Lost: n.Lost, ClockAheadMS: milliseconds(n.Ahead), ClocksOff: n.ClocksOff,
		Keys: int64(n.Keys), Waiting: int64(n.Waiting), Sent: n.Sent, Received: n.Received, Failed: n.Failures,
		Refused: n.Refused,
	}
}

// milliseconds returns d in milliseconds, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
