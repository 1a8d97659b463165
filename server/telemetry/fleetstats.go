package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Fleet describes how a node shares limits with others.
type Fleet struct {
	// Live is the number of reachable nodes including this one, and Known the number of all nodes. 0 if they are not
	// counted.
	Live, Known int
	// Lease has the figures of leases, nil if there are none.
	Lease *Lease
	// Sync has the figures of each kind of sync between nodes or regions.
	Sync []Sync
	// Gossip has the figures of the gossip network, nil if there is none.
	Gossip *Gossip
}

// Lease has the figures of units that are taken ahead of their use.
type Lease struct {
	Keys                           int64
	Calls, Failures                int64 // of the store
	Granted, Returned, Expired     int64 // units
	Denied, Waits, Exact, Degraded int64 // checks
}

// Sync has the figures of one kind of sync between nodes or regions.
type Sync struct {
	// Mode is async, gossip or global.
	Mode string
	// Keys is the number of tracked keys, Waiting how many of them have updates to send.
	Keys, Waiting int64
	// Applied counts units that others took, Over those admitted above a limit before that was known, and OverMax is
	// the most of one key at once.
	Applied, Over, OverMax int64
	// Lost counts units of other regions that could not be charged here because the store failed.
	Lost int64
	// Lag is the mean age of received updates, LagMax the highest recent one.
	Lag, LagMax time.Duration
	// Up reports whether updates are exchanged.
	Up bool
	// Ahead is how far the fleet's clock is ahead of this node's, and ClocksOff the number of nodes and region stores
	// whose clock skew is known to exceed a second.
	Ahead     time.Duration
	ClocksOff int64
	// Told and Heard count updates sent and received, Failures failed exchanges, Refused invalid updates.
	Sent, Received, Failures, Refused int64
	// Evicted counts keys dropped early, Full new keys that were refused.
	Evicted, Full int64
	// Lookups counts keys learned from others, LookupWaits decisions that waited for that, and LookupsDropped decisions
	// made without.
	Lookups, LookupWaits, LookupsDropped int64
}

// Gossip has the figures of the gossip network.
type Gossip struct {
	SentBytes, ReceivedBytes        int64
	Malformed, WrongKey, Foreign    int64
	SendErrors, Duplicates, Skipped int64
	StreamsRefused                  int64
}

var fleetDescs = []*prometheus.Desc{
	fleetNodesDesc, leaseKeysDesc, leaseCallsDesc, leaseUnitsDesc, leaseChecksDesc, syncKeysDesc, syncUnitsDesc, syncOverDesc, syncLagDesc,
	syncUpDesc, syncClockDesc, syncClocksOffDesc, syncUpdatesDesc, syncLostDesc, syncLookupsDesc, gossipBytesDesc, gossipRefusedDesc,
}

func (f *Fleet) collect(ch chan<- prometheus.Metric) {
	if f.Known > 0 {
		ch <- gauge(fleetNodesDesc, float64(f.Live), "live")
		ch <- gauge(fleetNodesDesc, float64(f.Known), "known")
	}
	if f.Lease != nil {
		f.Lease.collect(ch)
	}
	for i := range f.Sync {
		f.Sync[i].collect(ch)
	}
	if f.Gossip != nil {
		f.Gossip.collect(ch)
	}
}

// A labelledCount is a figure with its label.
type labelledCount struct {
	label string
	n     int64
}

func counters(ch chan<- prometheus.Metric, d *prometheus.Desc, list []labelledCount, before ...string) {
	for _, c := range list {
		ch <- counter(d, c.n, append(before[:len(before):len(before)], c.label)...)
	}
}

func (l *Lease) collect(ch chan<- prometheus.Metric) {
	ch <- gauge(leaseKeysDesc, float64(l.Keys))
	counters(ch, leaseCallsDesc, []labelledCount{{"ok", l.Calls - l.Failures}, {"failed", l.Failures}})
	counters(ch, leaseUnitsDesc, []labelledCount{{"granted", l.Granted}, {"returned", l.Returned}, {"expired", l.Expired}})
	counters(ch, leaseChecksDesc, []labelledCount{
		{"denied", l.Denied},
		{"waited", l.Waits},
		{"exact", l.Exact},
		{"degraded", l.Degraded},
	})
}

func (n *Sync) collect(ch chan<- prometheus.Metric) {
	ch <- gauge(syncKeysDesc, float64(n.Keys), n.Mode, "remembered")
	ch <- gauge(syncKeysDesc, float64(n.Waiting), n.Mode, "waiting")
	counters(ch, syncUnitsDesc, []labelledCount{{"applied", n.Applied}, {"over", n.Over}, {"lost", n.Lost}}, n.Mode)
	ch <- gauge(syncOverDesc, float64(n.OverMax), n.Mode)
	ch <- gauge(syncLagDesc, n.Lag.Seconds(), n.Mode, "mean")
	ch <- gauge(syncLagDesc, n.LagMax.Seconds(), n.Mode, "max")
	ch <- gauge(syncUpDesc, boolGauge(n.Up), n.Mode)
	ch <- gauge(syncClockDesc, n.Ahead.Seconds(), n.Mode)
	ch <- gauge(syncClocksOffDesc, float64(n.ClocksOff), n.Mode)
	counters(ch, syncUpdatesDesc, []labelledCount{
		{"sent", n.Sent},
		{"received", n.Received},
		{"failed", n.Failures},
		{"refused", n.Refused},
	}, n.Mode)
	counters(ch, syncLostDesc, []labelledCount{{"evicted", n.Evicted}, {"full", n.Full}}, n.Mode)
	counters(ch, syncLookupsDesc, []labelledCount{
		{"learned", n.Lookups},
		{"waited", n.LookupWaits},
		{"dropped", n.LookupsDropped},
	}, n.Mode)
}

func (g *Gossip) collect(ch chan<- prometheus.Metric) {
	counters(ch, gossipBytesDesc, []labelledCount{{"sent", g.SentBytes}, {"received", g.ReceivedBytes}})
	counters(ch, gossipRefusedDesc, []labelledCount{
		{"malformed", g.Malformed},
		{"wrong_key", g.WrongKey},
		{"foreign", g.Foreign},
		{"duplicate", g.Duplicates},
		{"not_sent", g.SendErrors},
		{"no_room", g.Skipped},
		{"streams", g.StreamsRefused},
	})
}
