package config

import "github.com/headgate/headgate/server/telemetry/traces"

// TraceOptions returns the options for traces, nil if they are off.
func (c *Config) TraceOptions() *traces.Options {
	if c.Traces == Off || c.Traces == "" && !traces.ConfiguredByEnv() {
		return nil
	}
	o := &traces.Options{Endpoint: c.Traces, Parents: traces.Parents(c.TracesParents)}
	if c.TracesSample != "" {
		o.Sampler, _ = traces.ParseSampler(c.TracesSample) // validate has checked it
	}
	return o
}

func (c *Config) validateTraces() error {
	if c.Traces == Off || c.Traces == "" {
		return nil
	}
	return traces.CheckEndpoint(c.Traces)
}

func (c *Config) validateTracesSample() error {
	if c.TracesSample == "" {
		return nil
	}
	_, err := traces.ParseSampler(c.TracesSample)
	return err
}

func (c *Config) validateTracesParents() error {
	switch traces.Parents(c.TracesParents) {
	case traces.ParentsAll, traces.ParentsProxies, traces.ParentsNone:
		return nil
	}
	return invalidValue(c.TracesParents, "all, proxies or none")
}
