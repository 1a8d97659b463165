// Package telemetry has the metrics of Headgate, all named here, its health and its log.
//
//	metrics := telemetry.New("1.2.3")
//	metrics.SetRules(telemetry.RuleLoad{Set: set, Revision: 1, Loaded: time.Now()})
//	e, err := engine.New(engine.Config{Rules: set, Store: store, Observe: metrics.Observe})
//	admin := telemetry.Admin{Metrics: metrics, Status: status}.Handler() // /metrics, /healthz, /readyz
//
// # Labels
//
// Labels have few values, and clients cannot add any: rules by id, as many as are in force; verdicts; configured
// shards and upstreams. A client's key, address or path is never a label. The counters of a rule are removed with it.
//
// # Cost
//
// Counting a decision takes one lookup by pointer and one addition per rule, and allocates nothing: label values are
// prepared when rules are loaded. Only some decisions are timed, see headgate_decision_seconds.
package telemetry
