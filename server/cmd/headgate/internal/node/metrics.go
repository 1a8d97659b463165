package node

import (
	"github.com/headgate/headgate/server/gateway"
	"github.com/headgate/headgate/server/telemetry"
)

// registerMetrics registers the parts of the node whose statistics each scrape reads.
func (n *Node) registerMetrics() error {
	sources := &telemetry.Sources{Waiting: n.engine.Waiting}
	n.stores.measure(sources)
	n.fleet.measure(sources)
	if n.followed != nil {
		n.followed.measure(sources)
		n.control.measure(sources)
	}
	if n.gateway != nil {
		measureGateway(n.gateway, sources)
	}
	n.service.measure(sources)
	return n.metrics.Register(sources)
}

// measureGateway adds the statistics of the gateway to the sources of each scrape.
func measureGateway(g *gateway.Gateway, to *telemetry.Sources) {
	to.Gateway = func() telemetry.Gateway {
		s := g.Stats()
		result := telemetry.Gateway{
			Conns: s.Conns, ConnsRefused: s.Refused, ConnsReclaimed: s.Reclaimed, UploadsRefused: s.UploadsRefused,
			InFlight: s.InFlight, Requests: s.Requests, Answers: s.Responses, Retries: s.Retries, Aborted: s.Aborted,
			Upgrades: s.Upgrades, Upgraded: s.Upgraded, UpgradesIdle: s.UpgradesIdle, UpgradesCut: s.UpgradesCut,
			LogWritten: s.LogWritten, LogDropped: s.LogDropped,
			CertificatesLoaded: s.CertificatesLoaded, CertificatesFailed: s.CertificatesFailed,
		}
		for i := range s.Upstreams {
			u := &s.Upstreams[i]
			result.Upstreams = append(result.Upstreams, telemetry.Upstream{
				Route: u.Route, URL: u.URL, Up: u.Up, InFlight: u.InFlight, Requests: u.Requests, Failed: u.Failed,
				Ejections: u.Ejections, Checks: u.Checks, ChecksFailed: u.ChecksFailed,
				Conns: int64(u.Pool.Open), Idle: int64(u.Pool.Idle),
			})
		}
		return result
	}
}
