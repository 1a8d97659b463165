package telemetry

import "github.com/prometheus/client_golang/prometheus"

// RESP is the figures of the server that clients of Redis ask.
type RESP struct {
	// Commands were answered, of which Errors with an error.
	Commands, Errors int64
	// Allowed and Denied are decisions. StoreFailures of them were made by policies.
	Allowed, Denied, StoreFailures int64
	// Expired are connections that were closed because they were silent for too long, Broken those that sent what is no command.
	Expired, Broken int64
	// RefusedTokens were shown and wrong.
	RefusedTokens int64
}

func describeRESP(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{respCommandsDesc, respDecisionsDesc, respErrorsDesc, respClosedDesc, respTokensDesc, respFailuresDesc} {
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
