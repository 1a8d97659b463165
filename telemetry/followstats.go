package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Follow is how the rules of a rules service are followed.
type Follow struct {
	// Clients and Overrides are how many there are, and hold.
	Clients, Overrides int
	// Age is since when it is not known whether there are later rules, negative if that was never known; Lag is how long after
	// they were committed those in force came into force.
	Age, Lag time.Duration
	// FromDisk tells that they are those of the node's own file, Up that the service answers, Push that it says when
	// something changes.
	FromDisk, Up, Push bool
	// What became of asking.
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
	ch <- gauge(rulesFromDiskDesc, one(f.FromDisk))
	ch <- gauge(rulesAwayDesc, one(f.Up))
	ch <- gauge(rulesPushDesc, one(f.Push))
	for _, c := range []struct {
		result string
		n      int64
	}{{"whole", f.Whole}, {"delta", f.Deltas}, {"unchanged", f.Unchanged}, {"refused", f.Refused}, {"failed", f.Failed}} {
		ch <- counter(rulesFetchesDesc, c.n, c.result)
	}
}
