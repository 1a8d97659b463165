package telemetry

import "github.com/prometheus/client_golang/prometheus"

// RESP has the counters of the server for Redis clients.
type RESP struct {
	// Commands were executed, and Errors of them got an error reply.
	Commands, Errors int64
	// Allowed and Denied are decisions. Policies made StoreFailures of them.
	Allowed, Denied, StoreFailures int64
	// Expired counts connections closed after a timeout, Broken those with malformed input.
	Expired, Broken int64
	// RefusedTokens counts wrong tokens.
	RefusedTokens int64
}

func describeRESP(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		respCommandsDesc, respDecisionsDesc, respErrorsDesc, respClosedDesc,
		respTokensDesc, respFailuresDesc,
	} {
		ch <- d
	}
}

func (r *RESP) collect(ch chan<- prometheus.Metric) {
	ch <- counter(respCommandsDesc, r.Commands)
	ch <- counter(respDecisionsDesc, r.Allowed, "allowed")
	ch <- counter(respDecisionsDesc, r.Denied, "denied")
	ch <- counter(respErrorsDesc, r.Errors)
	ch <- counter(respClosedDesc, r.Expired, "silent")
	ch <- counter(respClosedDesc, r.Broken, "malformed")
	ch <- counter(respTokensDesc, r.RefusedTokens)
	ch <- counter(respFailuresDesc, r.StoreFailures)
}
