package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Fleet is how a node shares limits with others.
type Fleet struct {
	// Live is how many nodes are heard of, this one included, and Known how many there are. 0 if nobody counts them.
	Live, Known int
	// Lease is the figures of leases, nil if there are none.
	Lease *Lease
	// News are those of each way in which nodes or regions tell each other what they took.
	News []News
	// Gossip is the figures of the network of nodes that gossip, nil if there is none.
	Gossip *Gossip
}

// Lease is the figures of units that are taken ahead of their use.
type Lease struct {
	Keys                           int64
	Calls, Failures                int64 // of the store
	Granted, Returned, Expired     int64 // units
	Denied, Waits, Exact, Degraded int64 // checks
}

// News is the figures of one way in which nodes or regions tell each other what they took.
type News struct {
	// Mode is async, gossip or global.
	Mode string
	// Keys are those that are remembered, Waiting those of them with something to tell.
	Keys, Waiting int64
	// Absorbed are the units that others took, Over those that were let pass before that was known, and OverMax the most of
	// one key at once.
	Absorbed, Over, OverMax int64
	// Lost are units of other regions that could not be charged here, because the store failed.
	Lost int64
	// Lag is how old news is, LagMax the oldest of late.
	Lag, LagMax time.Duration
	// Up tells that news comes and goes.
	Up bool
	// Ahead is by how much the date of the fleet is ahead of this node's, and DatesOff how many nodes, and stores of regions, are known to
	// be off by more than a second.
	Ahead    time.Duration
	DatesOff int64
	// Told and Heard are pieces of news, Failures exchanges that failed, Refused news that could not be true.
	Told, Heard, Failures, Refused int64
	// Evicted and Full are keys that were forgotten before their time, and new ones that were refused.
	Evicted, Full int64
	// Lookups are keys learned from others, LookupWaits decisions that waited for that, and LookupsDropped decisions made without.
	Lookups, LookupWaits, LookupsDropped int64
}

// Gossip is the figures of the network of nodes that gossip.
type Gossip struct {
	SentBytes, HeardBytes           int64
	Malformed, WrongKey, Foreign    int64
	SendErrors, Duplicates, Skipped int64
	StreamsRefused                  int64
}

var fleetDescs = []*prometheus.Desc{
	fleetNodesDesc, leaseKeysDesc, leaseCallsDesc, leaseUnitsDesc, leaseChecksDesc, newsKeysDesc, newsUnitsDesc, newsOverDesc, newsLagDesc,
	newsUpDesc, newsDateDesc, newsDatesOffDesc, newsTalliesDesc, newsLostDesc, newsLookupsDesc, gossipBytesDesc, gossipRefusedDesc,
}

func (f *Fleet) collect(ch chan<- prometheus.Metric) {
	if f.Known > 0 {
		ch <- gauge(fleetNodesDesc, float64(f.Live), "live")
		ch <- gauge(fleetNodesDesc, float64(f.Known), "known")
	}
	if f.Lease != nil {
		f.Lease.collect(ch)
	}
	for i := range f.News {
		f.News[i].collect(ch)
	}
	if f.Gossip != nil {
		f.Gossip.collect(ch)
	}
}

// A labelled is a figure and what it is of.
type labelled struct {
	label string
	n     int64
}

func counters(ch chan<- prometheus.Metric, d *prometheus.Desc, list []labelled, before ...string) {
	for _, c := range list {
		ch <- counter(d, c.n, append(before[:len(before):len(before)], c.label)...)
	}
}

func (l *Lease) collect(ch chan<- prometheus.Metric) {
	ch <- gauge(leaseKeysDesc, float64(l.Keys))
	counters(ch, leaseCallsDesc, []labelled{{"ok", l.Calls - l.Failures}, {"failed", l.Failures}})
	counters(ch, leaseUnitsDesc, []labelled{{"granted", l.Granted}, {"returned", l.Returned}, {"expired", l.Expired}})
	counters(ch, leaseChecksDesc, []labelled{{"denied", l.Denied}, {"waited", l.Waits}, {"exact", l.Exact}, {"degraded", l.Degraded}})
}

func (n *News) collect(ch chan<- prometheus.Metric) {
	ch <- gauge(newsKeysDesc, float64(n.Keys), n.Mode, "remembered")
	ch <- gauge(newsKeysDesc, float64(n.Waiting), n.Mode, "waiting")
	counters(ch, newsUnitsDesc, []labelled{{"absorbed", n.Absorbed}, {"over", n.Over}, {"lost", n.Lost}}, n.Mode)
	ch <- gauge(newsOverDesc, float64(n.OverMax), n.Mode)
	ch <- gauge(newsLagDesc, n.Lag.Seconds(), n.Mode, "mean")
	ch <- gauge(newsLagDesc, n.LagMax.Seconds(), n.Mode, "most")
	ch <- gauge(newsUpDesc, one(n.Up), n.Mode)
	ch <- gauge(newsDateDesc, n.Ahead.Seconds(), n.Mode)
	ch <- gauge(newsDatesOffDesc, float64(n.DatesOff), n.Mode)
	counters(ch, newsTalliesDesc, []labelled{{"told", n.Told}, {"heard", n.Heard}, {"failed", n.Failures}, {"refused", n.Refused}}, n.Mode)
	counters(ch, newsLostDesc, []labelled{{"evicted", n.Evicted}, {"full", n.Full}}, n.Mode)
	counters(ch, newsLookupsDesc, []labelled{{"learned", n.Lookups}, {"waited", n.LookupWaits}, {"dropped", n.LookupsDropped}}, n.Mode)
}

func (g *Gossip) collect(ch chan<- prometheus.Metric) {
	counters(ch, gossipBytesDesc, []labelled{{"sent", g.SentBytes}, {"heard", g.HeardBytes}})
	counters(ch, gossipRefusedDesc, []labelled{
		{"malformed", g.Malformed},
		{"wrong_key", g.WrongKey},
		{"foreign", g.Foreign},
		{"duplicate", g.Duplicates},
		{"not_sent", g.SendErrors},
		{"no_room", g.Skipped},
		{"streams", g.StreamsRefused},
	})
}
