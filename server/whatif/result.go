package whatif

import "time"

// A Result says what a proposal would have done.
type Result struct {
	Rule   string   `json:"rule"`
	Limits []string `json:"limits"`
	// From and To bound the traffic.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// SampledOneIn is 1 if all clients are known. Otherwise one in so many clients is known, and all clients with very
	// many requests.
	SampledOneIn   int64 `json:"sampled_one_in"`
	SampledClients int   `json:"sampled_clients"`

	Clients  Estimate `json:"clients"`
	Requests Estimate `json:"requests"`
	// Denied and Delayed are requests, Affected are clients with a denied request.
	Denied   Estimate `json:"denied"`
	Delayed  Estimate `json:"delayed"`
	Affected Estimate `json:"affected"`
	// Current is the outcome under the limits in force, nil if there are none.
	Current *Comparison `json:"current,omitempty"`
	// Top are the clients with the most denied requests.
	Top []ClientOutcome `json:"top"`
	// Curve has the outcomes for different counts of one limit of the rule, the lowest count first. CurveLimit is the
	// index of this limit in Limits: it is the limit that denies most by itself.
	Curve      []Point `json:"curve"`
	CurveLimit int     `json:"curve_limit"`
	// Unaffected99 is the outcome for the lowest count at which 99 % of the clients have no denied request, nil if there
	// is none.
	Unaffected99 *Point `json:"unaffected_99,omitempty"`
	// Notes say what the replay leaves out.
	Notes []string `json:"notes,omitempty"`
	// Partial means that the replay was interrupted, so that Curve and Unaffected99 may be missing.
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

// A Point is the outcome at one limit.
type Point struct {
	// Limit is the limit that the curve varies, and Count its count.
	Limit    string   `json:"limit"`
	Count    int64    `json:"count"`
	Denied   Estimate `json:"denied"`
	Affected Estimate `json:"affected"`
	// Unaffected is the share of the clients without a denied request, 0 to 1.
	Unaffected float64 `json:"unaffected"`
}
