package telemetry

import "github.com/prometheus/client_golang/prometheus"

// A Listener is the figures of one of the decision service's.
type Listener struct {
	// Name tells it from others: api, grpc or resp.
	Name string
	// Conns is how many connections it has. Accepted were opened so far, and Refused were too many.
	Conns, Accepted, Refused int64
}

func (l *Listener) collect(ch chan<- prometheus.Metric) {
	ch <- gauge(serviceConnsDesc, float64(l.Conns), l.Name)
	ch <- counter(serviceAcceptedDesc, l.Accepted, l.Name, "accepted")
	ch <- counter(serviceAcceptedDesc, l.Refused, l.Name, "refused")
}
