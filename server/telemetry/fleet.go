package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/fleet/gossip"
)

// Fleet has the statistics of limits that a node shares with other nodes.
type Fleet struct {
	control.FleetStats
	// Gossip has the statistics of the gossip network, nil if there is none.
	Gossip *gossip.Stats
}

func collectFleet(ch chan<- prometheus.Metric, f *Fleet) {
	if f.Known > 0 {
		ch <- gauge(fleetNodesDesc, float64(f.Live), "live")
		ch <- gauge(fleetNodesDesc, float64(f.Known), "known")
	}
	if f.Leases != nil {
		collectLease(ch, f.Leases)
	}
	for i := range f.Sync {
		collectSync(ch, &f.Sync[i])
	}
	if f.Gossip != nil {
		collectGossip(ch, f.Gossip)
	}
}

func collectLease(ch chan<- prometheus.Metric, l *control.LeaseStats) {
	ch <- gauge(leaseKeysDesc, float64(l.Keys))
	ch <- counter(leaseCallsDesc, notNegative(l.Calls-l.Failed), "ok")
	ch <- counter(leaseCallsDesc, l.Failed, "failed")
	ch <- counter(leaseUnitsDesc, l.Granted, "granted")
	ch <- counter(leaseUnitsDesc, l.Returned, "returned")
	ch <- counter(leaseUnitsDesc, l.Expired, "expired")
	ch <- counter(leaseChecksDesc, l.Denied, "denied")
	ch <- counter(leaseChecksDesc, l.Waits, "waited")
	ch <- counter(leaseChecksDesc, l.DecidedInStore, "exact")
	ch <- counter(leaseChecksDesc, l.Degraded, "degraded")
}

func collectSync(ch chan<- prometheus.Metric, s *control.SyncStats) {
	ch <- gauge(syncKeysDesc, float64(s.Keys), s.Mode, "remembered")
	ch <- gauge(syncKeysDesc, float64(s.Waiting), s.Mode, "waiting")
	ch <- counter(syncUnitsDesc, s.Applied, s.Mode, "applied")
	ch <- counter(syncUnitsDesc, s.ExcessUnits, s.Mode, "over")
	ch <- counter(syncUnitsDesc, s.Lost, s.Mode, "lost")
	ch <- gauge(syncOverDesc, float64(s.MaxExcess), s.Mode)
	ch <- gauge(syncLagDesc, s.LagMS/1000, s.Mode, "mean")
	ch <- gauge(syncLagDesc, s.LagMaxMS/1000, s.Mode, "max")
	ch <- gauge(syncUpDesc, boolGauge(s.Up), s.Mode)
	ch <- gauge(syncClockDesc, s.ClockAheadMS/1000, s.Mode)
	ch <- gauge(syncClocksOffDesc, float64(s.SkewedClocks), s.Mode)
	ch <- counter(syncUpdatesDesc, s.Sent, s.Mode, "sent")
	ch <- counter(syncUpdatesDesc, s.Received, s.Mode, "received")
	ch <- counter(syncUpdatesDesc, s.Failed, s.Mode, "failed")
	ch <- counter(syncUpdatesDesc, s.Refused, s.Mode, "refused")
	ch <- counter(syncLostDesc, s.Evicted, s.Mode, "evicted")
	ch <- counter(syncLostDesc, s.RefusedKeys, s.Mode, "full")
	ch <- counter(syncLookupsDesc, s.Lookups, s.Mode, "learned") // from peers
	ch <- counter(syncLookupsDesc, s.LookupWaits, s.Mode, "waited")
	ch <- counter(syncLookupsDesc, s.LookupsDropped, s.Mode, "dropped")
}

func collectGossip(ch chan<- prometheus.Metric, g *gossip.Stats) {
	ch <- counter(gossipBytesDesc, g.SentBytes, "sent")
	ch <- counter(gossipBytesDesc, g.ReceivedBytes, "received")
	ch <- counter(gossipLostDesc, g.Malformed, "malformed")
	ch <- counter(gossipLostDesc, g.WrongKey, "wrong_key")
	ch <- counter(gossipLostDesc, g.OtherSecret+g.OtherCluster, "foreign")
	ch <- counter(gossipLostDesc, g.Duplicates, "duplicate")
	ch <- counter(gossipLostDesc, g.SendErrors, "not_sent")
	ch <- counter(gossipLostDesc, g.Skipped, "no_room")
	ch <- counter(gossipLostDesc, g.StreamsRefused, "streams")
}
