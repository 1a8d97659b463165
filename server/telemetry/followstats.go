package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Follow describes how a node follows a rules service.
type Follow struct {
	// Clients counts registered clients, Overrides those in force.
	Clients, Overrides int
	// Age is the time since the rules service last confirmed the rules, negative if it never did. Lag is the time from
	// the commit of the rules to their coming into force.
	Age, Lag time.Duration
	// FromDisk reports that the rules are from the node's own file, Up that the service responds, Push that it signals
	// changes.
	FromDisk, Up, Push bool
	// Fetches by result.
	Whole, Deltas, Unchanged, Refused, Failed int64
}

var followDescs = []*prometheus.Desc{
	clientsDesc, overridesDesc, rulesAgeDesc, rulesLagDesc, rulesFromDiskDesc, rulesAwayDesc, rulesPushDesc, rulesFetchesDesc,
}

func (f *Follow) collect(ch chan<- prometheus.Metric) {
	ch <- gauge(clientsDesc, float64(f.Clients))
	ch <- gauge(overridesDesc, float64(f.Overrides))
	if f.Age >= 0 {
		ch <- gauge(rulesAgeDesc, f.Age.Seconds())
	}
	ch <- gauge(rulesLagDesc, f.Lag.Seconds())
	ch <- gauge(rulesFromDiskDesc, boolGauge(f.FromDisk))
	ch <- gauge(rulesAwayDesc, boolGauge(f.Up))
	ch <- gauge(rulesPushDesc, boolGauge(f.Push))
	for _, c := range []struct {
		result string
		n      int64
	}{{"whole", f.Whole}, {"delta", f.Deltas}, {"unchanged", f.Unchanged}, {"refused", f.Refused}, {"failed", f.Failed}} {
		ch <- counter(rulesFetchesDesc, c.n, c.result)
	}
}
