// Package telemetry provides the Prometheus metrics of a node, its health checks and its log handler.
//
//	metrics := telemetry.New("1.2.3")
//	metrics.SetRules(telemetry.RuleLoad{Set: set, Revision: 1, Loaded: time.Now()})
//	e, err := engine.New(engine.Config{Rules: set, Store: store, Observe: metrics.Observe})
//	admin := telemetry.Admin{Metrics: metrics, Status: status}.Handler() // /metrics, /healthz, /readyz
//
// # Labels
//
// The values of labels are IDs of rules in force, verdicts and other fixed words, and configured shards and upstreams.
// Clients cannot add values: their keys, addresses and paths are never labels. When a rule is removed, its counters are
// removed too.
//
// # Cost
//
// Counting a decision takes one lookup by pointer and one addition per rule. It allocates nothing, because label values
// are prepared when rules are loaded. Only a sample of the decisions is timed, for the histogram
// headgate_decision_seconds.
package telemetry
