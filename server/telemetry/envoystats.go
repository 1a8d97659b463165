package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Envoy has the counters of the Envoy rate limit service.
type Envoy struct {
	// Requests got a response, and Over of them OVER_LIMIT; Refused requests failed.
	Requests, Over, Refused int64
	// Degraded counts descriptors that a policy decided, UnknownDomain requests for unknown domains.
	Degraded, UnknownDomain int64
	// Loads counts configurations that came into force, LoadsRefused invalid ones.
	Loads, LoadsRefused int64
	// Limits has one element per name.
	Limits []EnvoyLimit
}

// An EnvoyLimit has the hits of one limit by result.
type EnvoyLimit struct {
	Domain, Descriptor         string
	Within, Near, Over, Shadow int64
}

func describeEnvoy(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		envoyRequestsDesc, envoyHitsDesc, envoyDegradedDesc, envoyUnknownDesc,
		envoyLoadsDesc,
	} {
		ch <- d
	}
}

func (e *Envoy) collect(ch chan<- prometheus.Metric) {
	ch <- counter(envoyRequestsDesc, max(0, e.Requests-e.Over), "ok")
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
