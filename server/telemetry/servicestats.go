package telemetry

import "github.com/prometheus/client_golang/prometheus"

// A Listener has the figures of a listener of the decision service.
type Listener struct {
	// Name is api, grpc or resp.
	Name string
	// Conns counts open connections, Accepted all so far, Refused those above the limit, and Reclaimed those closed
	// while idle to make room for others.
	Conns, Accepted, Refused, Reclaimed int64
}

func (l *Listener) collect(ch chan<- prometheus.Metric) {
	ch <- gauge(serviceConnsDesc, float64(l.Conns), l.Name)
	ch <- counter(serviceAcceptedDesc, l.Accepted, l.Name, "accepted")
	ch <- counter(serviceAcceptedDesc, l.Refused, l.Name, "refused")
	ch <- counter(serviceAcceptedDesc, l.Reclaimed, l.Name, "reclaimed")
}
