package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/server/gateway"
)

// Upper bounds of the buckets of histograms, in seconds.
var (
	storeBuckets = []float64{
		50e-6, 100e-6, 200e-6, 300e-6, 500e-6, 750e-6, 1e-3, 1.5e-3, 2.5e-3, 5e-3, 10e-3, 15e-3, 20e-3, 25e-3, 50e-3, 100e-3,
	}
	requestBuckets = []float64{
		100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30,
	}
)

// observers are histograms with one label. They are cached by label, because WithLabelValues takes longer.
type observers struct {
	histograms *prometheus.HistogramVec
	byLabel    *sync.Map // prometheus.Observer by string
}

func newObservers(o prometheus.HistogramOpts, label string) observers {
	return observers{prometheus.NewHistogramVec(o, []string{label}), new(sync.Map)}
}

func (o *observers) observe(label string, took time.Duration) {
	found, ok := o.byLabel.Load(label)
	if !ok {
		found, _ = o.byLabel.LoadOrStore(label, o.histograms.WithLabelValues(label))
	}
	found.(prometheus.Observer).Observe(took.Seconds())
}

// ObserveShard records the duration of a call to a shard of the store. It is a guard.Options.OnCall.
func (m *Metrics) ObserveShard(shard string, took time.Duration) { m.shardTime.observe(shard, took) }

// ObserveRequest records a request to the gateway. It is a gateway.Config.Observe.
func (m *Metrics) ObserveRequest(o *gateway.Observation) {
	if o.Upgraded { // its duration is that of the whole connection, such as a WebSocket
		return
	}
	m.gatewayTime.Observe(o.Duration.Seconds())
	if o.UpstreamDuration > 0 {
		m.upstreamTime.observe(o.Route, o.UpstreamDuration)
	}
}
