package telemetry

import "github.com/prometheus/client_golang/prometheus"

// The metrics. What one is called is a contract with those who have built panels and alarms on it.
var (
	requestsDesc = desc("requests_total", "Requests by what was decided for them: allow, delay, reject or drop.", "verdict")

	decisionsDesc = desc("decisions_total",
		"What each rule said of the requests that it was asked about: allow, delay, reject or drop; block if it denies them "+
			"whatever they consumed; shadow if they were over its limit and it only counts. The rule (none) stands for requests "+
			"that no rule limits.",
		"rule", "verdict", "mode")
	degradedDesc = desc("degraded_total", "Decisions that a rule's on_failure policy made because the store could not be asked.",
		"rule", "policy")

	rulesDesc       = desc("rules", "Rules in force.")
	revisionDesc    = desc("rules_revision", "Number of the rules in force. It rises with each change.")
	rulesLoadedDesc = desc("rules_loaded_timestamp_seconds", "When the rules in force were loaded.")
	rulesStaleDesc  = desc("rules_stale", "1 if the rules last read were refused, so that older ones are in force; else 0.")
	rulesLoadsDesc  = desc("rules_loads_total", "Times that rules were read: ok, unchanged or refused.", "result")
	waitingDesc     = desc("delayed_requests", "Requests that wait for their turn now.")

	memoryKeysDesc      = desc("memory_keys", "Keys that a store in memory remembers.", "store")
	memoryBytesDesc     = desc("memory_bytes", "Memory that the counters take.", "store")
	memoryMaxDesc       = desc("memory_max_bytes", "Memory that the counters may take.", "store")
	memoryEvictionsDesc = desc("memory_evictions_total", "Keys that were forgotten before their time because memory was full.", "store")
	memoryRefusalsDesc  = desc("memory_refusals_total", "New keys that were refused because memory was full.", "store")

	breakerDesc       = desc("breaker_state", "Circuit to a shard of the store: 0 closed, which is good, 1 open: policies decide.", "shard")
	guardCallsDesc    = desc("guard_calls_total", "Calls of the remote store.")
	guardFailuresDesc = desc("guard_failures_total", "Calls of the remote store that failed: timeout or error.", "reason")
	guardProbesDesc   = desc("guard_probes_total", "Times that a store that is down was asked how it is.", "result")
	guardCacheDesc    = desc("guard_denied_without_asking_total", "Requests denied by what was known: remembered, or shared with another caller.", "by")
	guardLostDesc     = desc("guard_lost_total", "What could not be written to the store: charges, gives, refunds, events.", "what")
	guardPoliciesDesc = desc("guard_policy_decisions_total", "Checks that a policy decided, by policy.", "policy")
	storeLostDesc     = desc("store_lost_refunds_total", "Units that could not be given back to the store.")
)

// The metrics that are measured as they happen.
const (
	decisionSeconds = "headgate_decision_seconds"
	storeSeconds    = "headgate_store_seconds"
	storeErrors     = "headgate_store_errors_total"
	faults          = "headgate_faults_total"
)

const prefix = "headgate_"

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}
