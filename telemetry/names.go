package telemetry

import "github.com/prometheus/client_golang/prometheus"

// The metrics. What one is called is a contract with those who have built panels and alarms on it.
var (
	requestsDesc = desc("requests_total", "Requests by what was decided for them: allow, delay, reject or drop.", "verdict")

	decisionsDesc = desc("decisions_total",
		"What each rule said of the requests that it was asked about: allow, delay, reject or drop; block if it denies them "+
			"whatever they consumed; shadow if they were over its limit and it only counts. The mode is the rule's, or degraded "+
			"if on_failure decided because the store could not be asked. The rule (none) stands for requests that no rule limits.",
		"rule", "verdict", "mode")
	degradedDesc = desc("degraded_total", "Decisions that a rule's on_failure policy made because the store could not be asked.",
		"rule", "policy")

	rulesDesc       = desc("rules", "Rules in force.")
	revisionDesc    = desc("rules_revision", "Number of the rules in force. It rises with each change.")
	rulesLoadedDesc = desc("rules_loaded_timestamp_seconds", "When the rules in force were loaded.")
	rulesStaleDesc  = desc("rules_stale", "1 if the rules last read were refused, so that older ones are in force; else 0.")
	rulesLoadsDesc  = desc("rules_loads_total", "Times that rules were read: ok, unchanged or refused.", "result")

	clientsDesc       = desc("clients", "Clients that are registered.")
	overridesDesc     = desc("overrides", "Temporary overrides that hold now.")
	rulesAgeDesc      = desc("rules_age_seconds", "How long ago the rules service last said that there are no later rules.")
	rulesLagDesc      = desc("rules_lag_seconds", "How long after they were committed the rules in force came into force here.")
	rulesFromDiskDesc = desc("rules_from_disk", "1 if the rules in force are those of the node's own file, because the rules service was never reached; else 0.")
	rulesAwayDesc     = desc("rules_service_up", "1 if the rules service answered when it was last asked, else 0.")
	rulesPushDesc     = desc("rules_push_up", "1 if the rules service says at once when something changes, 0 if it has to be asked.")
	databaseDesc      = desc("database_writable", "1 if the rules service can change rules, 0 if its database cannot be written.")
	rulesFetchesDesc  = desc("rules_fetches_total", "Times that the rules service was asked: whole or delta if it had something new, unchanged, refused, or failed.", "result")

	waitingDesc = desc("delayed_requests", "Requests that wait for their turn now.")

	memoryKeysDesc      = desc("memory_keys", "Keys that a store in memory remembers.", "store")
	memoryBytesDesc     = desc("memory_bytes", "Memory that the counters take.", "store")
	memoryMaxDesc       = desc("memory_max_bytes", "Memory that the counters may take.", "store")
	memoryEvictionsDesc = desc("memory_evictions_total", "Keys that were forgotten before their time because memory was full.", "store")
	memoryRefusalsDesc  = desc("memory_refusals_total", "New keys that were refused because memory was full.", "store")

	breakerDesc       = desc("breaker_state", "Whether policies decide in place of a shard of the store: 0 no, which is good, 1 yes.", "shard")
	guardCallsDesc    = desc("guard_calls_total", "Calls of the remote store.")
	guardFailuresDesc = desc("guard_failures_total", "Calls of the remote store that failed: timeout or error.", "reason")
	guardProbesDesc   = desc("guard_probes_total", "Times that a store that is down was asked how it is.", "result")
	guardCacheDesc    = desc("guard_denied_without_asking_total", "Requests denied by what was known: remembered, or shared with another caller.", "by")
	guardLostDesc     = desc("guard_lost_total", "What could not be written to the store: charges, gives, refunds, events.", "what")
	guardPoliciesDesc = desc("guard_policy_decisions_total", "Checks that a policy decided, by policy.", "policy")
	storeLostDesc     = desc("store_lost_refunds_total", "Units that could not be given back to the store.")

	guardWaitsDesc   = desc("guard_waits_total", "Requests that waited for the answer to another caller.")
	guardQueuedDesc  = desc("guard_queued_total", "Requests that waited because enough others were being decided.")
	guardRefusedDesc = desc("guard_overloaded_total", "Requests that were refused because too many others waited to be decided.")
	guardUngatedDesc = desc("guard_ungated_total", "Requests that did not wait any longer, or for which there was no room to wait, and went to the store.")
	guardLocalDesc   = desc("guard_local_failures_total", "Decisions of on_failure: local that let pass because counting here failed.")

	fleetNodesDesc  = desc("fleet_nodes", "Nodes that share limits: live are heard of, known includes those that have fallen silent.", "state")
	leaseKeysDesc   = desc("lease_keys", "Keys of which units are held that were taken ahead of their use.")
	leaseCallsDesc  = desc("lease_calls_total", "Calls of the store for units to hold: ok or failed.", "result")
	leaseUnitsDesc  = desc("lease_units_total", "Units granted by the store, returned to it, and expired without having been used.", "what")
	leaseChecksDesc = desc("lease_checks_total",
		"Checks under leases that found no units here: denied without asking, waited for a call, asked for one by one (exact), or decided by a policy (degraded).", "what")
	newsKeysDesc  = desc("news_keys", "Keys of which a node tells others what it took: remembered, and of these waiting to be told.", "mode", "state")
	newsUnitsDesc = desc("news_units_total",
		"Units that other nodes or regions took, as far as was heard (absorbed), those that passed beyond limits before it was (over), which is a debt that is repaid, and those that could not be charged (lost).", "mode", "what")
	newsOverDesc     = desc("news_over_most_units", "The most units that passed beyond one limit before it was known.", "mode")
	newsLagDesc      = desc("news_lag_seconds", "How old news of other nodes or regions is when it is heard: in the mean of late, and at most.", "mode", "of")
	newsUpDesc       = desc("news_up", "1 if nodes or regions hear of each other, 0 if what carries their news is away.", "mode")
	newsDateDesc     = desc("news_date_ahead_seconds", "By how much the date of the fleet, by which windows are counted, is ahead of this node's.", "mode")
	newsDatesOffDesc = desc("news_dates_off", "Nodes, and stores of regions, whose date is off by more than a second, as far as this node knows.", "mode")
	newsTalliesDesc  = desc("news_total", "Pieces of news: told, heard, failed (to be exchanged), and refused because they cannot be true, or make no sense.", "mode", "what")
	newsLostDesc     = desc("news_lost_keys_total", "Keys that were forgotten before their time (evicted), and new ones that were refused (full).", "mode", "what")
	newsLookupsDesc  = desc("news_lookups_total",
		"Keys learned from other nodes or regions on first sight, decisions that waited for that, and decisions made without (dropped).", "mode", "what")
	gossipBytesDesc   = desc("gossip_bytes_total", "Bytes that this node sent to others, and heard from them.", "way")
	gossipRefusedDesc = desc("gossip_lost_total", "Packets that came to nothing: malformed, wrong_key, foreign, duplicate, not_sent, no_room; and streams, refused because too many were open.", "why")

	serverUpDesc         = desc("redis_up", "1 if a server of Redis answers, else 0.", "server", "role")
	serverPingDesc       = desc("redis_ping_seconds", "How long a server took to answer.", "server", "role")
	serverMemoryDesc     = desc("redis_memory_bytes", "Memory that a server uses.", "server", "role")
	serverMaxDesc        = desc("redis_memory_max_bytes", "Memory that a server may use, 0 for no bound.", "server", "role")
	serverEvictedDesc    = desc("redis_evicted_keys_total", "Keys that a server has forgotten for want of memory: each a client that starts anew.", "server", "role")
	serverClientsDesc    = desc("redis_clients", "Clients that are connected to a server.", "server", "role")
	serverOpsDesc        = desc("redis_operations_per_second", "Operations a second, as a server measures them.", "server", "role")
	serverLagDesc        = desc("redis_replication_lag_bytes", "How far a replica is behind, or the slowest of a primary.", "server", "role")
	serverConnectsDesc   = desc("redis_connects_total", "Times that we have connected to a server.", "server", "role")
	serverHangsDesc      = desc("redis_hangs_total", "Times that a server was left alone because it did not answer.", "server", "role")
	serverUnansweredDesc = desc("redis_unanswered_total", "Calls that were sent to a server and not answered in time: they may have counted.", "server", "role")
	serverRefusedDesc    = desc("redis_refused_total", "Calls that were not sent because a server was away.", "server", "role")
	serverRedirectsDesc  = desc("redis_redirects_total", "Calls that a server has sent on to another.", "server", "role")

	connsDesc          = desc("gateway_connections", "Connections of clients.")
	connsRefusedDesc   = desc("gateway_connections_refused_total", "Connections that were too many.")
	connsReclaimedDesc = desc("gateway_connections_reclaimed_total", "Connections that were closed, while they served no request, to make room for others.")
	uploadsRefusedDesc = desc("gateway_uploads_refused_total", "Requests that were refused because their client had too many uploads under way.")
	inFlightDesc       = desc("gateway_requests_in_flight", "Requests that are being served.")
	answersDesc        = desc("gateway_answers_total", "Answers by class of their status; none if the connection was closed without one.", "class")
	retriesDesc        = desc("gateway_retries_total", "Requests that were tried on another upstream.")
	abortedDesc        = desc("gateway_aborted_total", "Answers that were cut off.")
	upgradesDesc       = desc("gateway_upgraded_connections", "Upgraded connections, such as those of WebSocket.")
	upgradedDesc       = desc("gateway_upgrades_total", "Connections that were upgraded.")
	upgradesEndDesc    = desc("gateway_upgrades_closed_total", "Upgraded connections that the gateway has closed: idle, or shutdown.", "reason")
	logDesc            = desc("gateway_access_log_lines_total", "Lines of the access log: written or dropped.", "result")
	certificatesDesc   = desc("gateway_certificate_loads_total", "Times that certificate files had changed: ok or failed.", "result")

	upstreamUpDesc        = desc("upstream_up", "1 if an upstream gets requests, 0 if it is down or left out.", "route", "upstream")
	upstreamInFlightDesc  = desc("upstream_requests_in_flight", "Requests that an upstream is serving.", "route", "upstream")
	upstreamRequestsDesc  = desc("upstream_requests_total", "Requests that an upstream was sent.", "route", "upstream")
	upstreamFailedDesc    = desc("upstream_failures_total", "Requests that have failed at an upstream.", "route", "upstream")
	upstreamEjectionsDesc = desc("upstream_ejections_total", "Times that an upstream was left out because requests failed.", "route", "upstream")
	upstreamChecksDesc    = desc("upstream_health_checks_total", "Health checks of an upstream: ok or failed.", "route", "upstream", "result")
	upstreamConnsDesc     = desc("upstream_connections", "Connections to an upstream: idle or busy.", "route", "upstream", "state")

	serviceConnsDesc    = desc("service_connections", "Connections that a listener of the decision service has: api, grpc or resp.", "listener")
	serviceAcceptedDesc = desc("service_connections_total", "Connections to a listener of the decision service: accepted, refused because there were too many, or reclaimed: closed while idle to make room for others.", "listener", "result")

	respCommandsDesc  = desc("resp_commands_total", "Commands of clients of Redis that were answered.")
	respDecisionsDesc = desc("resp_decisions_total", "Decisions for clients of Redis: allowed or denied.", "result")
	respErrorsDesc    = desc("resp_errors_total", "Answers to clients of Redis that are errors.")
	respClosedDesc    = desc("resp_connections_closed_total", "Connections of clients of Redis that the server has closed: silent for too long, or what they sent was no command.", "reason")
	respTokensDesc    = desc("resp_tokens_refused_total", "Wrong tokens that clients of Redis have shown.")
	respFailuresDesc  = desc("resp_store_failures_total", "Decisions for clients of Redis that policies made because the store could not be asked.")

	envoyRequestsDesc = desc("envoy_requests_total", "Requests of Envoys by what they were told: ok or over_limit; refused if they were wrong or there is no configuration.", "code")
	envoyHitsDesc     = desc("envoy_hits_total",
		"Hits on the limits of the Envoy configuration: within the limit, near it (less than a fifth was left), over it, or over it and let pass (shadow).",
		"domain", "descriptor", "result")
	envoyDegradedDesc = desc("envoy_degraded_total", "Descriptors that a policy decided because the store could not be asked.")
	envoyUnknownDesc  = desc("envoy_unknown_domain_total", "Requests of Envoys for domains that are not configured; they pass.")
	envoyLoadsDesc    = desc("envoy_config_loads_total", "Times that the Envoy configuration was read: ok or refused.", "result")
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
