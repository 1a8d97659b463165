// Package telemetry is what operators see of Headgate: its metrics, all named here, its health, and its log.
//
//	metrics := telemetry.New("1.2.3")
//	metrics.SetRules(set, false)
//	e, err := engine.New(engine.Config{Rules: set, Store: store, Observe: metrics.Observe})
//	admin := telemetry.Admin{Metrics: metrics, Status: status}.Handler() // /metrics, /healthz, /readyz
//
// # Labels
//
// Labels have few values, and clients cannot add any: rules by id, as many as are in force; what was decided; shards and
// upstreams as they are configured. A client's key, address or path is never one. What a rule had counted goes when the rule
// goes.
//
// # Cost
//
// Counting a decision is one look-up by pointer and one addition for each rule that was asked, and allocates nothing: what
// a counter is called is settled when rules are loaded. How long decisions take is measured for some of them, see
// headgate_decision_seconds.
package telemetry
