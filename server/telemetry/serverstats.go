package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Server describes a Redis server.
type Server struct {
	Addr    string
	Primary bool
	Up      bool

	// Reported by the server. Not sent while it is down.
	Ping                  time.Duration
	MemoryUsed, MemoryMax int64
	Evicted               int64
	Clients, OpsPerSecond int64
	LagBytes              int64

	// Counted here.
	Connects, Hangs, Unanswered, Refused, Redirects int64
}

func describeServers(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		serverUpDesc, serverPingDesc, serverMemoryDesc, serverMaxDesc, serverEvictedDesc, serverClientsDesc, serverOpsDesc, serverLagDesc,
		serverConnectsDesc, serverHangsDesc, serverUnansweredDesc, serverRefusedDesc, serverRedirectsDesc,
	} {
		ch <- d
	}
}

func (s *Server) collect(ch chan<- prometheus.Metric) {
	role := "replica"
	if s.Primary {
		role = "primary"
	}
	ch <- gauge(serverUpDesc, boolGauge(s.Up), s.Addr, role)
	for _, c := range []struct {
		desc *prometheus.Desc
		n    int64
	}{
		{serverConnectsDesc, s.Connects},
		{serverHangsDesc, s.Hangs},
		{serverUnansweredDesc, s.Unanswered},
		{serverRefusedDesc, s.Refused},
		{serverRedirectsDesc, s.Redirects},
	} {
		ch <- counter(c.desc, c.n, s.Addr, role)
	}
	if !s.Up {
		return
	}
	ch <- counter(serverEvictedDesc, s.Evicted, s.Addr, role)
	for _, g := range []struct {
		desc *prometheus.Desc
		n    float64
	}{
		{serverPingDesc, s.Ping.Seconds()},
		{serverMemoryDesc, float64(s.MemoryUsed)},
		{serverMaxDesc, float64(s.MemoryMax)},
		{serverClientsDesc, float64(s.Clients)},
		{serverOpsDesc, float64(s.OpsPerSecond)},
		{serverLagDesc, float64(s.LagBytes)},
	} {
		ch <- gauge(g.desc, g.n, s.Addr, role)
	}
}
