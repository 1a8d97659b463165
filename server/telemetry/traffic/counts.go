package traffic

// Counts are the requests of a rule, or of all rules, in some time.
type Counts struct {
	// Requests is the sum of Denied, Delayed and Allowed.
	Requests uint64 `json:"q,omitempty"`
	Denied   uint64 `json:"d,omitempty"`
	Delayed  uint64 `json:"w,omitempty"`
	// ShadowDenied are requests that a shadow rule would have denied.
	ShadowDenied uint64 `json:"s,omitempty"`
	// Degraded are requests that on_failure decided.
	Degraded uint64 `json:"g,omitempty"`
	// Cost is the number of units that the requests asked for.
	Cost uint64 `json:"c,omitempty"`
	// Timed is the number of decisions that were timed, about one in 32. They took TookNS nanoseconds in total.
	Timed  uint64 `json:"n,omitempty"`
	TookNS uint64 `json:"t,omitempty"`
}

// Allowed returns the number of requests that passed immediately.
func (c *Counts) Allowed() uint64 { return c.Requests - min(c.Requests, c.Denied+c.Delayed) }

// Add adds other counts.
func (c *Counts) Add(o *Counts) {
	for i, n := range o.fields() {
		*c.pointers()[i] += n
	}
}

// sub returns c minus an earlier reading. If a counter is lower than before, it was created again and has counted
// from 0.
func (c *Counts) sub(earlier *Counts) Counts {
	result := *c
	before := earlier.fields()
	for i, p := range result.pointers() {
		if *p >= before[i] {
			*p -= before[i]
		}
	}
	return result
}

// Minus returns c minus an earlier state of the same counts.
func (c *Counts) Minus(earlier *Counts) Counts { return c.sub(earlier) }

// part returns the i-th of n parts, which are as equal as possible. Their sum is c.
func (c *Counts) part(i, n uint64) Counts {
	result := *c
	for _, p := range result.pointers() {
		*p = *p*(i+1)/n - *p*i/n
	}
	return result
}

const countFields = 8

func (c *Counts) pointers() [countFields]*uint64 {
	return [...]*uint64{&c.Requests, &c.Denied, &c.Delayed, &c.ShadowDenied, &c.Degraded, &c.Cost, &c.Timed, &c.TookNS}
}

func (c *Counts) fields() [countFields]uint64 {
	return [...]uint64{c.Requests, c.Denied, c.Delayed, c.ShadowDenied, c.Degraded, c.Cost, c.Timed, c.TookNS}
}

// A Row has the counts of a rule. Rule is Total for all requests.
type Row struct {
	Rule string `json:"r,omitempty"`
	Counts
}

// Total is the Rule of a Row with all requests. A request that matches several rules counts once.
const Total = ""

// A Second has the rows of one second.
type Second struct {
	Unix int64 `json:"unix"`
	Rows []Row `json:"rows"`
}

// A Report is a node's message to the rules service with its latest counts.
type Report struct {
	Node string `json:"node"`
	// Started is the Unix time of the node's start in microseconds. For the same Started, each second is counted only
	// once.
	Started int64    `json:"started"`
	Seconds []Second `json:"seconds"`
	// Minute is the Unix time of the minute in which Clients were counted, 0 without Clients. Clients has the counts since
	// the beginning of the minute.
	Minute  int64         `json:"minute,omitempty"`
	Clients []ClientCount `json:"clients,omitempty"`
	// Cursor is the cursor of the last response whose erasures the node has applied, FirstCursor before that. Nodes of
	// v0.1.0 have none.
	Cursor string `json:"cursor,omitempty"`
}

// FirstCursor is the Cursor of a node that has applied no erasures.
const FirstCursor = "0"

// A ClientCount has the requests of a client under a rule.
type ClientCount struct {
	// Client has the attributes of the client.
	Client RawClient `json:"client"`
	Rule   string    `json:"rule"`
	// The true number of requests differs from Requests by at most Error, with a probability of 99 %.
	Requests uint64 `json:"requests"`
	Allowed  uint64 `json:"allowed"`
	Denied   uint64 `json:"denied"`
	Error    uint64 `json:"error"`
	// Shadow means that the rule is a shadow rule, which denies nothing. Denied is then the number of requests that it
	// would have denied.
	Shadow bool `json:"shadow,omitempty"`
}
