package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Gateway has the figures of a gateway.
type Gateway struct {
	Conns, ConnsRefused, ConnsReclaimed           int64
	UploadsRefused                                int64
	InFlight, Requests                            int64
	Answers                                       [6]int64 // by class of their status; [0] without a status
	Retries, Aborted                              int64
	Upgrades, Upgraded, UpgradesIdle, UpgradesCut int64
	LogWritten, LogDropped                        int64
	CertificatesLoaded, CertificatesFailed        int64
	Upstreams                                     []Upstream
}

// An Upstream is a configured service behind the gateway.
type Upstream struct {
	Route, URL                 string
	Up                         bool
	InFlight, Requests, Failed int64
	Ejections                  int64
	Checks, ChecksFailed       int64
	// Conns counts connections, Idle those of them without a request.
	Conns, Idle int64
}

func describeGateway(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		connsDesc, connsRefusedDesc, connsReclaimedDesc, uploadsRefusedDesc, inFlightDesc, answersDesc, retriesDesc, abortedDesc, upgradesDesc, upgradedDesc, upgradesEndDesc,
		logDesc, certificatesDesc, upstreamUpDesc, upstreamInFlightDesc, upstreamRequestsDesc, upstreamFailedDesc,
		upstreamEjectionsDesc, upstreamChecksDesc, upstreamConnsDesc,
	} {
		ch <- d
	}
}

func (g *Gateway) collect(ch chan<- prometheus.Metric) {
	ch <- gauge(connsDesc, float64(g.Conns))
	ch <- counter(connsRefusedDesc, g.ConnsRefused)
	ch <- counter(connsReclaimedDesc, g.ConnsReclaimed)
	ch <- counter(uploadsRefusedDesc, g.UploadsRefused)
	ch <- gauge(inFlightDesc, float64(g.InFlight))
	for class, n := range g.Answers {
		word := "none"
		if class > 0 {
			word = strconv.Itoa(class) + "xx"
		}
		ch <- counter(answersDesc, n, word)
	}
	ch <- counter(retriesDesc, g.Retries)
	ch <- counter(abortedDesc, g.Aborted)
	ch <- gauge(upgradesDesc, float64(g.Upgrades))
	ch <- counter(upgradedDesc, g.Upgraded)
	ch <- counter(upgradesEndDesc, g.UpgradesIdle, "idle")
	ch <- counter(upgradesEndDesc, g.UpgradesCut, "shutdown")
	ch <- counter(logDesc, g.LogWritten, "written")
	ch <- counter(logDesc, g.LogDropped, "dropped")
	ch <- counter(certificatesDesc, g.CertificatesLoaded, "ok")
	ch <- counter(certificatesDesc, g.CertificatesFailed, "failed")
	for i := range g.Upstreams {
		g.Upstreams[i].collect(ch)
	}
}

func (u *Upstream) collect(ch chan<- prometheus.Metric) {
	ch <- gauge(upstreamUpDesc, boolGauge(u.Up), u.Route, u.URL)
	ch <- gauge(upstreamInFlightDesc, float64(u.InFlight), u.Route, u.URL)
	ch <- counter(upstreamRequestsDesc, u.Requests, u.Route, u.URL)
	ch <- counter(upstreamFailedDesc, u.Failed, u.Route, u.URL)
	ch <- counter(upstreamEjectionsDesc, u.Ejections, u.Route, u.URL)
	ch <- counter(upstreamChecksDesc, max(0, u.Checks-u.ChecksFailed), u.Route, u.URL, "ok")
	ch <- counter(upstreamChecksDesc, u.ChecksFailed, u.Route, u.URL, "failed")
	ch <- gauge(upstreamConnsDesc, float64(u.Idle), u.Route, u.URL, "idle")
	ch <- gauge(upstreamConnsDesc, float64(max(0, u.Conns-u.Idle)), u.Route, u.URL, "busy")
}
