package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/server/service/envoyrls"
	"github.com/headgate/headgate/server/service/resp"
)

func collectEnvoy(ch chan<- prometheus.Metric, e *envoyrls.Stats) {
	ch <- counter(envoyRequestsDesc, notNegative(e.Requests-e.Over), "ok")
	ch <- counter(envoyRequestsDesc, e.Over, "over_limit")
	ch <- counter(envoyRequestsDesc, e.Refused, "refused")
	ch <- counter(envoyDegradedDesc, e.Degraded)
	ch <- counter(envoyUnknownDesc, e.UnknownDomain)
	ch <- counter(envoyLoadsDesc, e.Loads, "ok")
	ch <- counter(envoyLoadsDesc, e.LoadsRefused, "refused")
	for i := range e.Limits {
		l := &e.Limits[i]
		ch <- counter(envoyHitsDesc, l.Within, l.Domain, l.Descriptor, "within")
		ch <- counter(envoyHitsDesc, l.Near, l.Domain, l.Descriptor, "near")
		ch <- counter(envoyHitsDesc, l.Over, l.Domain, l.Descriptor, "over")
		ch <- counter(envoyHitsDesc, l.Shadow, l.Domain, l.Descriptor, "shadow")
	}
}

func collectRESP(ch chan<- prometheus.Metric, r *resp.Stats) {
	ch <- counter(respCommandsDesc, r.Commands)
	ch <- counter(respDecisionsDesc, r.Allowed, "allowed")
	ch <- counter(respDecisionsDesc, r.Denied, "denied")
	ch <- counter(respErrorsDesc, r.Errors)
	ch <- counter(respClosedDesc, r.Expired, "silent")
	ch <- counter(respClosedDesc, r.Broken, "malformed")
	ch <- counter(respTokensDesc, r.RefusedTokens)
	ch <- counter(respFailuresDesc, r.StoreFailures)
}
