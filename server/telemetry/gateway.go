package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/server/gateway"
)

func collectGateway(ch chan<- prometheus.Metric, g *gateway.Stats) {
	ch <- gauge(connsDesc, float64(g.Conns))
	ch <- counter(connsRefusedDesc, g.Refused)
	ch <- counter(connsReclaimedDesc, g.Reclaimed)
	ch <- counter(uploadsRefusedDesc, g.UploadsRefused)
	ch <- gauge(turnsWaitingDesc, float64(g.Turns.Waiting))
	ch <- counter(turnWaitsDesc, notNegative(g.Turns.Waits-g.Turns.Overdue-int64(g.Turns.Waiting)), "turn")
	ch <- counter(turnWaitsDesc, g.Turns.Overdue, "overdue")
	ch <- gauge(inFlightDesc, float64(g.InFlight))
	for class, n := range g.Responses {
		name := "none"
		if class > 0 {
			name = strconv.Itoa(class) + "xx"
		}
		ch <- counter(responsesDesc, n, name)
	}
	ch <- counter(retriesDesc, g.Retries)
	ch <- counter(abortedDesc, g.Aborted)
	ch <- gauge(upgradesOpenDesc, float64(g.Upgrades))
	ch <- counter(upgradesTotalDesc, g.Upgraded)
	ch <- counter(upgradesEndDesc, g.UpgradesIdle, "idle")
	ch <- counter(upgradesEndDesc, g.UpgradesCut, "shutdown")
	ch <- counter(logDesc, g.LogWritten, "written")
	ch <- counter(logDesc, g.LogDropped, "dropped")
	ch <- counter(certificatesDesc, g.CertificatesLoaded, "ok")
	ch <- counter(certificatesDesc, g.CertificatesFailed, "failed")
	expires := map[string]float64{} // by listener
	for _, c := range g.Certificates {
		end := float64(c.NotAfter.Unix())
		if before, ok := expires[c.Listener]; !ok || end < before {
			expires[c.Listener] = end
		}
	}
	for listener, end := range expires {
		ch <- gauge(certificateExpiryDesc, end, listener)
	}
	for i := range g.Upstreams {
		collectUpstream(ch, &g.Upstreams[i])
	}
}

func collectUpstream(ch chan<- prometheus.Metric, u *gateway.UpstreamStats) {
	ch <- gauge(upstreamUpDesc, boolGauge(u.Up), u.Route, u.URL)
	ch <- gauge(upstreamInFlightDesc, float64(u.InFlight), u.Route, u.URL)
	ch <- counter(upstreamRequestsDesc, u.Requests, u.Route, u.URL)
	ch <- counter(upstreamFailedDesc, u.Failed, u.Route, u.URL)
	ch <- counter(upstreamEjectionsDesc, u.Ejections, u.Route, u.URL)
	ch <- counter(upstreamChecksDesc, notNegative(u.Checks-u.ChecksFailed), u.Route, u.URL, "ok")
	ch <- counter(upstreamChecksDesc, u.ChecksFailed, u.Route, u.URL, "failed")
	ch <- gauge(upstreamConnsDesc, float64(u.Pool.Idle), u.Route, u.URL, "idle")
	ch <- gauge(upstreamConnsDesc, float64(u.Pool.Open-u.Pool.Idle), u.Route, u.URL, "busy")
}
