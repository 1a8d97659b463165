package whatif

import "time"

// A Result is the outcome of a proposal for past traffic.
type Result struct {
	Rule   string   `json:"rule"`
	Limits []string `json:"limits"`
	// From and To are the beginning and end of the traffic.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// SampledOneIn is 1 if all clients are known. Otherwise one in this number of clients is known, and also each client
	// with very many requests.
	SampledOneIn   int64 `json:"sampled_one_in"`
	SampledClients int   `json:"sampled_clients"`

	Clients  Estimate `json:"clients"`
	Requests Estimate `json:"requests"`
	// Denied and Delayed count requests. Affected counts clients with a denied request.
	Denied   Estimate `json:"denied"`
	Delayed  Estimate `json:"delayed"`
	Affected Estimate `json:"affected"`
	// Current is the outcome under the limits in force. It is nil if there are none.
	Current *Comparison `json:"current,omitempty"`
	// Top are the clients with the most denied requests.
	Top []ClientOutcome `json:"top"`
	// Curve contains the outcomes for different counts of one limit of the rule, the lowest count first. CurveLimit is
	// the index of this limit in Limits. It is the limit that would deny the most requests if it were the only limit.
	Curve      []Point `json:"curve"`
	CurveLimit int     `json:"curve_limit"`
	// Unaffected99 is the outcome for the lowest count at which 99 % of the clients have no denied request. It is nil if
	// there is no such count.
	Unaffected99 *Point `json:"unaffected_99,omitempty"`
	// Notes tell users what the replay does not include.
	Notes []string `json:"notes,omitempty"`
	// Partial means that the replay was interrupted. Then Curve and Unaffected99 may be missing.
	Partial bool `json:"partial,omitempty"`
}

// A Comparison is the outcome under the limits in force.
type Comparison struct {
	Limits   []string `json:"limits"`
	Denied   Estimate `json:"denied"`
	Affected Estimate `json:"affected"`
}

// A ClientOutcome is the outcome for one client.
type ClientOutcome struct {
	Client   any   `json:"client"`
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
	Delayed  int64 `json:"delayed,omitempty"`
}

// A Point is the outcome for one count of the varied limit.
type Point struct {
	// Limit is the varied limit with the count of this point.
	Limit    string   `json:"limit"`
	Count    int64    `json:"count"`
	Denied   Estimate `json:"denied"`
	Affected Estimate `json:"affected"`
	// Unaffected is the share of the clients without a denied request, 0 to 1.
	Unaffected float64 `json:"unaffected"`
}
