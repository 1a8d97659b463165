package control

import (
	"fmt"
	"math"
)

// FleetFigures are how a node shares limits with others, since it was started: a counter that is smaller than it was is of a
// node that was started again.
type FleetFigures struct {
	// Live is how many nodes are heard of, this one included, and Known how many there are. 0 if nobody counts them.
	Live  int64 `json:"live"`
	Known int64 `json:"known"`
	// Sync is each way in which nodes or regions tell each other what they took.
	Sync []SyncFigures `json:"sync,omitempty"`
	// Leases are units that are taken ahead of their use. Nil if none are.
	Leases *LeaseFigures `json:"leases,omitempty"`
}

// SyncFigures are those of one way in which nodes or regions tell each other what they took.
type SyncFigures struct {
	// Mode is "async", "gossip", or "global" between regions. There may be others in later versions.
	Mode string `json:"mode"`
	// Up tells that news comes and goes.
	Up bool `json:"up"`
	// LagMS is how old news is when it is absorbed, on average, and LagMaxMS the oldest of late.
	LagMS    float64 `json:"lag_ms"`
	LagMaxMS float64 `json:"lag_max_ms"`
	// Over is how many units passed beyond limits before that was known, and OverMax the most of one key.
	Over    int64 `json:"over"`
	OverMax int64 `json:"over_max"`
	// Applied is how many units others took, and Lost how many of other regions could not be charged.
	Applied int64 `json:"applied"`
	Lost    int64 `json:"lost"`
	// ClockAheadMS is how far the fleet's clock is ahead of the node's; ClocksOff counts clocks that are off by more than a second.
	ClockAheadMS float64 `json:"clock_ahead_ms"`
	ClocksOff    int64   `json:"clocks_off"`
	// Keys are those that are remembered, Waiting those of them with something to tell.
	Keys    int64 `json:"keys"`
	Waiting int64 `json:"waiting"`
	// Sent and Received are pieces of news, Failed exchanges that failed, Refused news that could not be true.
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
	Failed   int64 `json:"failed"`
	Refused  int64 `json:"refused"`
}

// LeaseFigures are those of units that are taken ahead of their use.
type LeaseFigures struct {
	// Keys is for how many keys units are held.
	Keys int64 `json:"keys"`
	// Calls are those of the store, Failed those of them that were in vain.
	Calls  int64 `json:"calls"`
	Failed int64 `json:"failed"`
	// Granted, Returned and Expired are units.
	Granted  int64 `json:"granted"`
	Returned int64 `json:"returned"`
	Expired  int64 `json:"expired"`
}

// Bounds of the figures. What is beyond them is no figure of a fleet.
const (
	// MaxFigure is up to where whoever reads JSON counts exactly.
	MaxFigure = 1<<53 - 1
	// MaxFigureMS are about three hundred years: a date may be off by as much as a host that takes it to be 1970.
	MaxFigureMS = 1e13
	// MaxSyncModes is how many ways of telling each other there may be, and MaxModeName how long the name of one is.
	MaxSyncModes = 8
	MaxModeName  = 32
)

// each calls count for all figures that are counted, with the path of each, and ms for those that are times, with the least that
// they can be.
func (f *FleetFigures) each(count func(path string, n *int64), ms func(path string, v *float64, least float64)) {
	count("live", &f.Live)
	count("known", &f.Known)
	for i := range f.Sync {
		n := &f.Sync[i]
		at := fmt.Sprintf("sync[%d].", i)
		ms(at+"lag_ms", &n.LagMS, 0)
		ms(at+"lag_max_ms", &n.LagMaxMS, 0)
		ms(at+"clock_ahead_ms", &n.ClockAheadMS, -MaxFigureMS)
		for _, c := range []struct {
			name string
			n    *int64
		}{
			{"over", &n.Over},
			{"over_max", &n.OverMax},
			{"applied", &n.Applied},
			{"lost", &n.Lost},
			{"clocks_off", &n.ClocksOff},
			{"keys", &n.Keys},
			{"waiting", &n.Waiting},
			{"sent", &n.Sent},
			{"received", &n.Received},
			{"failed", &n.Failed},
			{"refused", &n.Refused},
		} {
			count(at+c.name, c.n)
		}
	}
	if l := f.Leases; l != nil {
		count("leases.keys", &l.Keys)
		count("leases.calls", &l.Calls)
		count("leases.failed", &l.Failed)
		count("leases.granted", &l.Granted)
		count("leases.returned", &l.Returned)
		count("leases.expired", &l.Expired)
	}
}

// Bound brings figures within their bounds: a node that has counted beyond them is to be heard all the same.
func (f *FleetFigures) Bound() {
	f.each(func(_ string, n *int64) {
		*n = min(max(*n, 0), MaxFigure)
	}, func(_ string, v *float64, least float64) {
		if math.IsNaN(*v) {
			*v = 0
		}
		*v = min(max(*v, least), MaxFigureMS)
	})
	f.Known = max(f.Known, f.Live)
}

// A Misfit is a figure that cannot be one, and what could.
type Misfit struct{ Path, Value, Want string }

// Misfits returns what is wrong with figures that somebody else has sent.
func (f *FleetFigures) Misfits() []Misfit {
	if len(f.Sync) > MaxSyncModes {
		return []Misfit{{"sync", fmt.Sprintf("%d of them", len(f.Sync)), fmt.Sprintf("at most %d", MaxSyncModes)}}
	}
	var list []Misfit
	f.each(func(path string, n *int64) {
		if *n < 0 || *n > MaxFigure {
			list = append(list, Misfit{path, fmt.Sprint(*n), fmt.Sprintf("0 to %d", int64(MaxFigure))})
		}
	}, func(path string, v *float64, least float64) {
		if !(*v >= least && *v <= MaxFigureMS) {
			list = append(list, Misfit{path, fmt.Sprint(*v), fmt.Sprintf("%g to %g", least, float64(MaxFigureMS))})
		}
	})
	if f.Live > f.Known {
		list = append(list, Misfit{"live", fmt.Sprint(f.Live), "at most as many as are known"})
	}
	seen := make(map[string]bool, len(f.Sync))
	for i := range f.Sync {
		path, mode := fmt.Sprintf("sync[%d].mode", i), f.Sync[i].Mode
		switch {
		case mode == "" || len(mode) > MaxModeName:
			list = append(list, Misfit{path, fmt.Sprintf("%.40q", mode), fmt.Sprintf("the name of a mode, of at most %d bytes", MaxModeName)})
		case seen[mode]:
			list = append(list, Misfit{path, fmt.Sprintf("%q", mode), "each mode once"})
		}
		seen[mode] = true
	}
	return list
}
