package traffic

import "time"

// A NodeQuery is sent by the rules service to ask a node about its traffic. Exactly one of its fields is set.
type NodeQuery struct {
	// Sample asks for the sampled requests under a rule.
	Sample *SampleQuery `json:"sample,omitempty"`
	// Series asks for the node's own counts over time.
	Series *SeriesQuery `json:"series,omitempty"`
	// Decisions asks for the node's last decisions.
	Decisions *DecisionsQuery `json:"decisions,omitempty"`
}

// A SampleQuery selects the sampled requests under a rule.
type SampleQuery struct {
	Rule string `json:"rule"`
	// Window is how long ago the oldest requests were decided.
	Window time.Duration `json:"window"`
}

// A NodeResponse is the response to a NodeQuery.
type NodeResponse struct {
	// Sample is nil if the node has no sample for the rule.
	Sample *Sample `json:"sample,omitempty"`
	// SamplesOff means that the node has no samples at all, because it does not count clients.
	SamplesOff bool    `json:"samples_off,omitempty"`
	Series     *Series `json:"series,omitempty"`
	// Decisions are ordered from newest to oldest.
	Decisions []Decision `json:"decisions,omitempty"`
}
