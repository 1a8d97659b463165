package node

import (
	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/telemetry"
)

// measureGateway adds the figures of the gateway to those that are scraped.
func measureGateway(g *gateway.Gateway, to *telemetry.Sources) {
	to.Gateway = func() telemetry.Gateway {
		f := g.Stats()
		made := telemetry.Gateway{
			Conns: f.Conns, ConnsRefused: f.Refused, ConnsReclaimed: f.Reclaimed, UploadsRefused: f.UploadsRefused, InFlight: f.InFlight, Requests: f.Requests, Answers: f.Answers,
			Retries: f.Retries, Aborted: f.Aborted,
			Upgrades: f.Upgrades, Upgraded: f.Upgraded, UpgradesIdle: f.UpgradesIdle, UpgradesCut: f.UpgradesCut,
			LogWritten: f.LogWritten, LogDropped: f.LogDropped,
			CertificatesLoaded: f.CertificatesLoaded, CertificatesFailed: f.CertificatesFailed,
		}
		for i := range f.Upstreams {
			u := &f.Upstreams[i]
			made.Upstreams = append(made.Upstreams, telemetry.Upstream{
				Route: u.Route, URL: u.URL, Up: u.Up, InFlight: u.InFlight, Requests: u.Requests, Failed: u.Failed,
				Ejections: u.Ejections, Checks: u.Checks, ChecksFailed: u.ChecksFailed,
				Conns: int64(u.Pool.Open), Idle: int64(u.Pool.Idle),
			})
		}
		return made
	}
}

// upstreams returns how the services behind the gateway are.
func upstreams(g *gateway.Gateway) []telemetry.UpstreamStatus {
	var list []telemetry.UpstreamStatus
	for _, u := range g.Stats().Upstreams {
		made := telemetry.UpstreamStatus{Route: u.Route, URL: u.URL, Up: u.Up}
		if !u.Up && u.LastErr != nil {
			made.Error = u.LastErr.Error()
		}
		list = append(list, made)
	}
	return list
}
