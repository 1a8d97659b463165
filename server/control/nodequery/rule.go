package nodequery

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

// A Rule is the state of one rule for one client.
type Rule struct {
	ID     string `json:"id"`
	Effect string `json:"effect"`
	Denied bool   `json:"denied,omitempty"`
	// Mode is the rule's consistency, or "degraded" if the store is unreachable and on_failure decides.
	Mode      string `json:"mode"`
	Shadow    bool   `json:"shadow,omitempty"`
	Shared    bool   `json:"shared,omitempty"`
	Penalized bool   `json:"penalized,omitempty"`
	Override  *int   `json:"override,omitempty"`
	Client    string `json:"client,omitempty"`
	// Properties are the client's properties that conditions use.
	Properties map[string]string `json:"properties,omitempty"`
	Key        []KeyPart         `json:"key"`
	Cost       int64             `json:"cost"`
	Limits     []Limit           `json:"limits"`
}

// A KeyPart is an attribute of a rule's key, and the client's value.
type KeyPart struct {
	Attribute string `json:"attribute"`
	Value     string `json:"value"`
}

// A Limit is the state of one limit. A time of −1 means never.
type Limit struct {
	Name     string `json:"name"`
	Limit    string `json:"limit"`
	Allowed  bool   `json:"allowed"`
	Capacity int64  `json:"capacity"`
	// Remaining and ResetAfterMS are null if the store is unreachable.
	Remaining    *int64 `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	ResetAfterMS *int64 `json:"reset_after_ms"`
	DelayMS      int64  `json:"delay_ms,omitempty"`
}

// NewRule converts an explanation of a rule by the engine.
func NewRule(e *engine.RuleExplanation) Rule {
	r := Rule{
		ID: e.Rule.ID, Effect: e.Effect.String(), Denied: e.Denied, Mode: e.Mode.String(), Shadow: e.Shadow, Shared: e.Shared,
		Penalized: e.Penalized, Client: e.Client, Cost: e.Cost, Key: []KeyPart{}, Limits: []Limit{},
		Properties: Properties(e.Properties),
	}
	if e.Override >= 0 {
		r.Override = &e.Override
	}
	if e.Degraded {
		r.Mode = "degraded"
	}
	for _, k := range e.Key {
		r.Key = append(r.Key, KeyPart{k.Attribute.String(), k.Value})
	}
	for i := range e.Limits {
		r.Limits = append(r.Limits, newLimit(&e.Limits[i]))
	}
	return r
}

func newLimit(a *engine.Applied) Limit {
	l := Limit{
		Name: a.Name, Limit: a.Limit.String(), Allowed: a.Decision.Allowed, Capacity: a.Decision.Limit,
		RetryAfterMS: Milliseconds(a.Decision.RetryAfter), DelayMS: Milliseconds(a.Decision.Delay),
	}
	if !a.Decision.Degraded {
		remaining, reset := a.Decision.Remaining, Milliseconds(a.Decision.ResetAfter)
		l.Remaining, l.ResetAfterMS = &remaining, &reset
	}
	return l
}

// Properties returns a map from names to values.
func Properties(list []rules.Property) map[string]string {
	values := make(map[string]string, len(list))
	for _, p := range list {
		values[p.Name] = p.Value
	}
	return values
}

// Milliseconds rounds a duration up to milliseconds. It returns −1 for headgate.Never.
func Milliseconds(d time.Duration) int64 {
	if d == headgate.Never {
		return -1
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
