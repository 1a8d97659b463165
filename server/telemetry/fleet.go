package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/gossip"
	"github.com/headgate/headgate/server/fleet/lease"
)

// Fleet describes how a node shares limits with others.
type Fleet struct {
	// Live is the number of reachable nodes including this one, and Known the number of all nodes. 0 if they are not
	// counted.
	Live, Known int
	// Lease has the statistics of leases, nil if there are none.
	Lease *lease.Stats
	// Sync has the statistics of each kind of sync between nodes or regions.
	Sync []Sync
	// Gossip has the statistics of the gossip network, nil if there is none.
	Gossip *gossip.Stats
}

// Sync has the statistics of one kind of sync between nodes or regions.
type Sync struct {
	// Mode is async, gossip or global.
	Mode string
	// LedgerStats are the figures of the ledger, or of several ledgers together.
	fleet.LedgerStats
	// Lost counts units of other regions that could not be charged here because the store failed.
	Lost int64
	// Up reports whether updates are exchanged.
	Up bool
	// Ahead is how far the fleet's clock is ahead of this node's, and ClocksOff the number of nodes and region stores
	// whose clock skew is known to exceed a second.
	Ahead     time.Duration
	ClocksOff int64
	// Sent and Received count updates sent and received, Failures failed exchanges.
	Sent, Received, Failures int64
}

func collectFleet(ch chan<- prometheus.Metric, f *Fleet) {
	if f.Known > 0 {
		ch <- gauge(fleetNodesDesc, float64(f.Live), "live")
		ch <- gauge(fleetNodesDesc, float64(f.Known), "known")
	}
	if f.Lease != nil {
		collectLease(ch, f.Lease)
	}
	for i := range f.Sync {
		collectSync(ch, &f.Sync[i])
	}
	if f.Gossip != nil {
		collectGossip(ch, f.Gossip)
	}
}

func collectLease(ch chan<- prometheus.Metric, l *lease.Stats) {
	ch <- gauge(leaseKeysDesc, float64(l.Keys))
	ch <- counter(leaseCallsDesc, notNegative(l.Calls-l.Failures), "ok")
	ch <- counter(leaseCallsDesc, l.Failures, "failed")
	ch <- counter(leaseUnitsDesc, l.Granted, "granted")
	ch <- counter(leaseUnitsDesc, l.Returned, "returned")
	ch <- counter(leaseUnitsDesc, l.Expired, "expired")
	ch <- counter(leaseChecksDesc, l.Denied, "denied")
	ch <- counter(leaseChecksDesc, l.Waits, "waited")
	ch <- counter(leaseChecksDesc, l.Exact, "exact")
	ch <- counter(leaseChecksDesc, l.Degraded, "degraded")
}

func collectSync(ch chan<- prometheus.Metric, s *Sync) {
	ch <- gauge(syncKeysDesc, float64(s.Keys), s.Mode, "remembered")
	ch <- gauge(syncKeysDesc, float64(s.Waiting), s.Mode, "waiting")
	ch <- counter(syncUnitsDesc, s.Applied, s.Mode, "applied")
	ch <- counter(syncUnitsDesc, s.Over, s.Mode, "over")
	ch <- counter(syncUnitsDesc, s.Lost, s.Mode, "lost")
	ch <- gauge(syncOverDesc, float64(s.OverMax), s.Mode)
	ch <- gauge(syncLagDesc, s.Lag.Seconds(), s.Mode, "mean")
	ch <- gauge(syncLagDesc, s.LagMax.Seconds(), s.Mode, "max")
	ch <- gauge(syncUpDesc, boolGauge(s.Up), s.Mode)
	ch <- gauge(syncClockDesc, s.Ahead.Seconds(), s.Mode)
	ch <- gauge(syncClocksOffDesc, float64(s.ClocksOff), s.Mode)
	ch <- counter(syncUpdatesDesc, s.Sent, s.Mode, "sent")
	ch <- counter(syncUpdatesDesc, s.Received, s.Mode, "received")
	ch <- counter(syncUpdatesDesc, s.Failures, s.Mode, "failed")
	ch <- counter(syncUpdatesDesc, s.Refused, s.Mode, "refused")
	ch <- counter(syncLostDesc, s.Evicted, s.Mode, "evicted")
	ch <- counter(syncLostDesc, s.Full, s.Mode, "full")
	ch <- counter(syncLookupsDesc, s.Lookups, s.Mode, "learned")
	ch <- counter(syncLookupsDesc, s.LookupWaits, s.Mode, "waited")
	ch <- counter(syncLookupsDesc, s.LookupsDropped, s.Mode, "dropped")
}

func collectGossip(ch chan<- prometheus.Metric, g *gossip.Stats) {
	ch <- counter(gossipBytesDesc, g.SentBytes, "sent")
	ch <- counter(gossipBytesDesc, g.ReceivedBytes, "received")
	ch <- counter(gossipLostDesc, g.Malformed, "malformed")
	ch <- counter(gossipLostDesc, g.WrongKey, "wrong_key")
	ch <- counter(gossipLostDesc, g.Foreign+g.OtherCluster, "foreign")
	ch <- counter(gossipLostDesc, g.Duplicates, "duplicate")
	ch <- counter(gossipLostDesc, g.SendErrors, "not_sent")
	ch <- counter(gossipLostDesc, g.Skipped, "no_room")
	ch <- counter(gossipLostDesc, g.StreamsRefused, "streams")
}
