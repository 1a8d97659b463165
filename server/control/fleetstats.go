package control

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/headgate/headgate/rules/file/source"
)

// FleetStats are statistics about the limits that a node shares with other nodes. They are in its heartbeats, its status
// and its metrics. Counters start at 0 when the node starts.
type FleetStats struct {
	// Live is the number of live nodes including this one, and Known the number of all nodes. Both are 0 if the node does
	// not know the others.
	Live  int64 `json:"live"`
	Known int64 `json:"known"`
	// Sync has an element for each mode in which nodes or regions synchronize their counters.
	Sync []SyncStats `json:"sync,omitempty"`
	// Leases is nil if the node uses no leases.
	Leases *LeaseStats `json:"leases,omitempty"`
}

// SyncStats are the statistics of one mode in which nodes or regions synchronize their counters.
type SyncStats struct {
	// Mode is "async", "gossip", or "global" between regions. Later versions may have others.
	Mode string `json:"mode"`
	// Up reports whether updates are sent and received.
	Up bool `json:"up"`
	// LagMS is the average age of updates when they are applied, and LagMaxMS the recent maximum.
	LagMS    float64 `json:"lag_ms"`
	LagMaxMS float64 `json:"lag_max_ms"`
	// ExcessUnits is the number of units admitted above limits, and MaxExcess the maximum for one key.
	ExcessUnits int64 `json:"over"`
	MaxExcess   int64 `json:"over_max"`
	// Applied is the number of units that other nodes or regions consumed. Lost is the number of units of other regions
	// that could not be charged.
	Applied int64 `json:"applied"`
	Lost    int64 `json:"lost"`
	// ClockAheadMS is how far the fleet's clock is ahead of the node's. SkewedClocks is the number of clocks that
	// are wrong by more than a second.
	ClockAheadMS float64 `json:"clock_ahead_ms"`
	SkewedClocks int64   `json:"clocks_off"`
	// Keys is the number of keys in memory. Waiting is the number of keys with an update to send.
	Keys    int64 `json:"keys"`
	Waiting int64 `json:"waiting"`
	// Sent and Received count updates, Failed counts failed requests, and Refused counts implausible updates.
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
	Failed   int64 `json:"failed"`
	Refused  int64 `json:"refused"`
	// Evicted counts keys dropped early, and RefusedKeys counts new keys refused, both for lack of memory.
	Evicted     int64 `json:"evicted"`
	RefusedKeys int64 `json:"full"`
	// Lookups counts the keys whose consumption by others was looked up. LookupWaits counts the decisions that waited for
	// a lookup, and LookupsDropped the decisions that were made without its result.
	Lookups        int64 `json:"lookups"`
	LookupWaits    int64 `json:"lookup_waits"`
	LookupsDropped int64 `json:"lookups_dropped"`
}

// LeaseStats are the statistics of leases: units that a node takes from the store before it needs them.
type LeaseStats struct {
	// Keys is the number of keys with leases.
	Keys int64 `json:"keys"`
	// Calls counts store calls, and Failed the failed ones.
	Calls  int64 `json:"calls"`
	Failed int64 `json:"failed"`
	// Granted, Returned and Expired count units.
	Granted  int64 `json:"granted"`
	Returned int64 `json:"returned"`
	Expired  int64 `json:"expired"`
	// The following counters are about checks that found no leased units. Denied were denied without a store call,
	// Waits waited for a store call in progress, DecidedInStore each made a store call, and Degraded were decided by a
	// failure policy.
	Denied         int64 `json:"denied"`
	Waits          int64 `json:"waits"`
	DecidedInStore int64 `json:"exact"`
	Degraded       int64 `json:"degraded"`
}

// The bounds of statistics. Values outside them are invalid.
const (
	// MaxStat is the largest integer that all readers of JSON can represent.
	MaxStat = 1<<53 - 1
	// MaxStatMS is the maximum duration in milliseconds, about three hundred years. Decades must be valid: a host that
	// does not know the time may start its clock in 1970.
	MaxStatMS = 1e13
	// MaxSyncModes is the maximum number of modes, and MaxModeName the maximum size of a mode's name in bytes.
	MaxSyncModes = 8
	MaxModeName  = 32
)

// Isolated reports whether the node neither sends nor receives updates in some mode. It returns false if f is nil.
func (f *FleetStats) Isolated() bool {
	return f != nil && slices.ContainsFunc(f.Sync, func(s SyncStats) bool { return !s.Up })
}

// visit calls visitCount for all counters and visitMS for all times, with their JSON paths. minimum is the lowest valid
// time.
func (f *FleetStats) visit(
	visitCount func(path string, n *int64), visitMS func(path string, v *float64, minimum float64),
) {
	visitStats(reflect.ValueOf(f).Elem(), "", func(path string, value any) {
		switch v := value.(type) {
		case *int64:
			visitCount(path, v)
		case *float64:
			minimum := 0.0
			if strings.HasSuffix(path, ".clock_ahead_ms") {
				minimum = -MaxStatMS
			}
			visitMS(path, v, minimum)
		}
	})
}

// visitStats calls do with a pointer to each field of a struct and of its nested structs.
func visitStats(v reflect.Value, path string, do func(path string, value any)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			visitStats(v.Field(i), source.Join(path, name), do)
		}
	case reflect.Slice:
		for i := range v.Len() {
			visitStats(v.Index(i), fmt.Sprintf("%s[%d]", path, i), do)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			visitStats(v.Elem(), path, do)
		}
	default:
		do(path, v.Addr().Interface())
	}
}

// Clamp sets each statistic outside its bounds to the nearest valid value, so that a heartbeat is not refused because of
// it.
func (f *FleetStats) Clamp() {
	f.visit(func(_ string, n *int64) {
		*n = min(max(*n, 0), MaxStat)
	}, func(_ string, v *float64, minimum float64) {
		if math.IsNaN(*v) {
			*v = 0
		}
		*v = min(max(*v, minimum), MaxStatMS)
	})
	f.Known = max(f.Known, f.Live)
}

// Problems returns the invalid statistics.
func (f *FleetStats) Problems() (list []source.Problem) {
	add := func(path, value, want string) {
		list = append(list, source.Problem{Path: path, Value: value, Want: want})
	}
	if len(f.Sync) > MaxSyncModes {
		add("sync", fmt.Sprintf("%d modes", len(f.Sync)), fmt.Sprintf("at most %d", MaxSyncModes))
		return list
	}
	f.visit(func(path string, n *int64) {
		if *n < 0 || *n > MaxStat {
			add(path, fmt.Sprint(*n), fmt.Sprintf("0 to %d", int64(MaxStat)))
		}
	}, func(path string, v *float64, minimum float64) {
		if !(*v >= minimum && *v <= MaxStatMS) { // also true for NaN
			add(path, fmt.Sprint(*v), fmt.Sprintf("%g to %g", minimum, float64(MaxStatMS)))
		}
	})
	if f.Live > f.Known {
		add("live", fmt.Sprint(f.Live), "at most known")
	}
	seen := make(map[string]bool, len(f.Sync))
	for i := range f.Sync {
		path, mode := fmt.Sprintf("sync[%d].mode", i), f.Sync[i].Mode
		switch {
		case mode == "" || len(mode) > MaxModeName:
			add(path, fmt.Sprintf("%.40q", mode), fmt.Sprintf("the name of a mode, of at most %d bytes", MaxModeName))
		case seen[mode]:
			add(path, fmt.Sprintf("%q", mode), "each mode once")
		}
		seen[mode] = true
	}
	return list
}
