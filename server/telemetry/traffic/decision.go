package traffic

import "time"

// A DecisionsQuery selects decisions.
type DecisionsQuery struct {
	// Client has attributes with values in the form of Namer.Kept. Empty for all clients.
	Client map[string]string `json:"client,omitempty"`
	Rule   string            `json:"rule,omitempty"` // empty for all
	Denied bool              `json:"denied,omitempty"`
	Limit  int               `json:"limit"`
}

// A Decision is the decision of a rule about one request.
type Decision struct {
	Time   time.Time `json:"time"`
	Node   string    `json:"node"`
	Client RawClient `json:"client"`
	Rule   string    `json:"rule"`
	// Verdict has the values of the label verdict of the metrics: allow, delay, reject, drop, block or shadow.
	Verdict string `json:"verdict"`
	// Limit is the tightest limit of the rule, empty if the client is blocked. Remaining and RetryAfterMS are
	// about this limit.
	Limit        string `json:"limit,omitempty"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"` // -1 means never
	DelayMS      int64  `json:"delay_ms,omitempty"`
	Cost         int64  `json:"cost"`
	// Degraded reports whether on_failure decided, because the store was unreachable.
	Degraded bool `json:"degraded,omitempty"`
	// OneIn is n if only one request in n was recorded at that time, 0 if all were.
	OneIn uint32 `json:"one_in,omitempty"`
}
