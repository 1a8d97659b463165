package telemetry

import "github.com/prometheus/client_golang/prometheus"

// A Listener is the figures of one of the decision service's.
type Listener struct {
	// Name tells it from others: api, grpc or resp.
	Name string
	// Conns is how many connections it has. Accepted were opened so far, Refused were too many, and Reclaimed were closed
	// while they were idle to make room for others.
	Conns, Accepted, Refused, Reclaimed int64
}

func (l *Listener) collect(ch chan<- prometheus.Metric) {
	ch <- gauge(serviceConnsDesc, float64(l.Conns), l.Name)
	ch <- counter(serviceAcceptedDesc, l.Accepted, l.Name, "accepted")
	ch <- counter(serviceAcceptedDesc, l.Refused, l.Name, "refused")
	ch <- counter(serviceAcceptedDesc, l.Reclaimed, l.Name, "reclaimed")
}
