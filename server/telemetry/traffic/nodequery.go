package traffic

import "time"

// A NodeQuery is a query of the rules service to a node about its traffic. One of its fields is set.
type NodeQuery struct {
	// Sample asks for the sampled requests under a rule.
	Sample *SampleQuery `json:"sample,omitempty"`
	// Series asks for the node's own counts over time.
	Series *SeriesQuery `json:"series,omitempty"`
	// Decisions asks for the node's last decisions.
	Decisions *DecisionsQuery `json:"decisions,omitempty"`
}

// A SampleQuery selects a sample.
type SampleQuery struct {
	Rule   string        `json:"rule"`
	Window time.Duration `json:"window"`
}

// A NodeResponse is the response to a NodeQuery.
type NodeResponse struct {
	// Sample is nil if the node has none of this rule.
	Sample *Sample `json:"sample,omitempty"`
	Series *Series `json:"series,omitempty"`
	// Decisions are the latest first.
	Decisions []Decision `json:"decisions,omitempty"`
}
