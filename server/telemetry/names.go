package telemetry

import "github.com/prometheus/client_golang/prometheus"

// The descriptions of the metrics. Users' dashboards and alerts depend on the names: do not change them.
var (
	requestsDesc = desc("requests_total", "Requests by verdict: allow, delay, reject or drop.", "verdict")

	decisionsDesc = desc("decisions_total",
		"Verdicts of each rule: allow, delay, reject or drop; block if the rule denies regardless of consumption; "+
			"shadow if the request was over the limit of a rule that only counts. The mode is the rule's, or degraded "+
			"if on_failure decided because the store failed. The rule (none) stands for requests that no rule limits.",
		"rule", "verdict", "mode")
	degradedDesc = desc("degraded_total",
		"Decisions of a rule's on_failure policy because the store failed: open, closed or local. The policy shadow "+
			"stands for shadow rules, which limit nothing.", "rule", "policy")

	rulesDesc       = desc("rules", "Rules in force.")
	revisionDesc    = desc("rules_revision", "Revision of the rules in force. It rises with each change.")
	rulesLoadedDesc = desc("rules_loaded_timestamp_seconds", "When the rules in force were loaded.")
	rulesStaleDesc  = desc("rules_stale", "1 if the rules last read were refused and older ones are in force; else 0.")
	rulesLoadsDesc  = desc("rules_loads_total", "Attempts to load rules: ok, unchanged or refused.", "result")

	clientsDesc       = desc("clients", "Registered clients.")
	overridesDesc     = desc("overrides", "Temporary overrides in force.")
	rulesAgeDesc      = desc("rules_age_seconds", "Time since the rules service last confirmed the rules.")
	rulesLagDesc      = desc("rules_lag_seconds", "Time from the commit of the rules until this node applied them.")
	rulesFromDiskDesc = desc("rules_from_disk",
		"1 if the rules in force are from the node's own file because the rules service has not been reached yet; else 0.")
	rulesServiceUpDesc = desc("rules_service_up", "1 if the rules service responded to the last request, else 0.")
	rulesPushDesc      = desc("rules_push_up", "1 if the rules service pushes changes, 0 if it has to be polled.")
	databaseDesc       = desc("database_writable",
		"1 if the rules service can change rules, 0 if its database cannot be written.")
	rulesFetchesDesc = desc("rules_fetches_total",
		"Requests to the rules service: whole or delta (the rules changed), unchanged, refused or failed.", "result")

	enforcementOffRulesDesc = desc("enforcement_off_rules",
		"Rules whose enforcement is suspended: requests over their limits are admitted and counted.")
	enforcementOffDesc = desc("enforcement_off",
		"Active suspensions of enforcement: for all nodes (fleet) or for this node only (node).", "scope")
	enforcementOffEndDesc = desc("enforcement_off_end_timestamp_seconds",
		"When the last suspension of enforcement ends, 0 if there is none.")

	overloadStageDesc = desc("overload_stage",
		"Work that is shed because of this node's own load: 0 nothing, 1 console, 2 also explain (explanations, "+
			"what-if), 3 also detail (statistics of clients, decision log), 4 also requests.")
	overloadWaitDesc  = desc("overload_wait_seconds", "How long goroutines waited for a core in the last 100 ms, p90.")
	overloadShareDesc = desc("overload_refused_ratio", "Share of requests that is refused because of this node's own load.")
	overloadShedDesc  = desc("overload_shed_total",
		"Work shed because of this node's own load: console, explain, detail or requests.", "kind")

	waitingDesc = desc("delayed_requests", "Requests that are delayed now.")

	memoryKeysDesc      = desc("memory_keys", "Keys in a memory store.", "store")
	memoryBytesDesc     = desc("memory_bytes", "Memory used by counters.", "store")
	memoryMaxDesc       = desc("memory_max_bytes", "Maximum memory for counters.", "store")
	memoryEvictionsDesc = desc("memory_evictions_total", "Keys evicted early because memory was full.", "store")
	memoryRefusalsDesc  = desc("memory_refusals_total", "New keys refused because memory was full.", "store")

	breakerDesc = desc("breaker_state", "Circuit of a shard of the store: 0 closed, 1 open (failure policies decide).",
		"shard")
	guardCallsDesc    = desc("guard_calls_total", "Calls to the remote store.")
	guardFailuresDesc = desc("guard_failures_total", "Failed calls to the remote store: timeout or error.", "reason")
	guardProbesDesc   = desc("guard_probes_total", "Probes of a store that is down.", "result")
	guardCacheDesc    = desc("guard_deny_cache_hits_total",
		"Requests denied by the deny cache (remembered) or by the response to another caller (shared).", "kind")
	guardLostDesc = desc("guard_lost_total", "Lost charges, units not given back (gives), refunds of a denied TakeAll, and events for the log.",
		"kind")
	guardPoliciesDesc = desc("guard_policy_decisions_total", "Checks decided by a failure policy.", "policy")
	storeLostDesc     = desc("store_lost_refunds_total", "Units that could not be returned to the store.")

	guardWaitsDesc   = desc("guard_waits_total", "Requests that waited for another caller's response, or for a denial to expire.")
	guardQueuedDesc  = desc("guard_queued_total", "Requests queued because too many others were being decided.")
	guardRefusedDesc = desc("guard_overloaded_total", "Requests refused because the queue was full.")
	guardSkippedDesc = desc("guard_waits_skipped_total",
		"Requests sent to the store without a response to another caller: the wait was too long, or too many others waited.")
	guardLocalDesc = desc("guard_local_failures_total",
		"Requests admitted because the store failed and local counting, their failure policy, failed too.")

	fleetNodesDesc = desc("fleet_nodes", "Nodes that share limits: live are reachable, known includes unreachable ones.",
		"state")
	leaseKeysDesc   = desc("lease_keys", "Keys with leased units.")
	leaseCallsDesc  = desc("lease_calls_total", "Calls to the store for leases: ok or failed.", "result")
	leaseUnitsDesc  = desc("lease_units_total", "Leased units: granted, returned, and expired unused.", "kind")
	leaseChecksDesc = desc("lease_checks_total",
		"Checks without leased units: denied without a store call, waited for a call, decided one by one in the store "+
			"(exact), or decided by a policy (degraded).", "kind")
	syncKeysDesc  = desc("sync_keys", "Synced keys: all that are remembered, and those of them that wait to be sent.", "mode", "state")
	syncUnitsDesc = desc("sync_units_total",
		"Units that other nodes or regions took (applied), units admitted above limits before their updates arrived "+
			"(over; deducted later), and units that could not be charged (lost).", "mode", "kind")
	syncOverDesc = desc("sync_over_max_units", "Most units admitted above one limit before updates of other nodes or regions arrived.", "mode")
	syncLagDesc  = desc("sync_lag_seconds",
		"Age of updates from other nodes or regions when received: recent mean, and maximum.",
		"mode", "stat")
	syncUpDesc = desc("sync_up", "1 if nodes or regions exchange updates, 0 if their transport is unreachable.",
		"mode")
	syncClockDesc     = desc("sync_clock_ahead_seconds", "How far the fleet's clock is ahead of this node's.", "mode")
	syncClocksOffDesc = desc("sync_clocks_off", "Nodes and region stores whose clock skew is known to exceed a second.",
		"mode")
	syncUpdatesDesc = desc("sync_updates_total", "Updates: sent, received, failed exchanges, and refused as invalid.",
		"mode", "kind")
	syncLostDesc = desc("sync_lost_keys_total", "Keys dropped early (evicted), and new keys refused (full).", "mode",
		"kind")
	syncLookupsDesc = desc("sync_lookups_total",
		"Keys learned from other nodes or regions on first use (learned), decisions that waited for a lookup "+
			"(waited), and decisions made without its result (dropped).", "mode", "kind")
	gossipBytesDesc = desc("gossip_bytes_total", "Bytes sent to other nodes and received from them.", "direction")
	gossipLostDesc  = desc("gossip_lost_total",
		"Lost packets: malformed, wrong_key, foreign, duplicate, not_sent, no_room; "+
			"and streams refused because too many were open.", "reason")

	serverUpDesc = desc("redis_up",
		"1 if a Redis server responds, else 0. The other metrics of a server that does not respond keep their last "+
			"values for up to an hour after it has left the store; CPU, operations and clients are 0.", "server", "role")
	serverPingDesc    = desc("redis_ping_seconds", "Response time of a server.", "server", "role")
	serverMemoryDesc  = desc("redis_memory_bytes", "Memory used by a server.", "server", "role")
	serverMaxDesc     = desc("redis_memory_max_bytes", "Maximum memory of a server, 0 if unlimited.", "server", "role")
	serverEvictedDesc = desc("redis_evicted_keys_total",
		"Keys a server evicted because its memory was full: each resets a client's consumption.", "server", "role")
	serverCPUDesc = desc("redis_cpu_cores", "CPU cores that a server used between the last two polls.", "server",
		"role")
	serverNetworkDesc = desc("redis_network_bytes_total", "Bytes that a server has received (in) and sent (out).",
		"server", "role", "direction")
	serverSlotsDesc   = desc("redis_slots", "Slots that a primary of a cluster owns, 0 without a cluster.", "server", "role")
	serverClientsDesc = desc("redis_clients", "Clients connected to a server.", "server", "role")
	serverOpsDesc     = desc("redis_operations_per_second", "Operations per second, as measured by a server.", "server",
		"role")
	serverLagDesc = desc("redis_replication_lag_bytes", "Replication lag of a replica, or of a primary's slowest replica.",
		"server", "role")
	serverConnectsDesc = desc("redis_connects_total", "Connections opened to a server.", "server", "role")
	serverHangsDesc    = desc("redis_hangs_total", "Times connections to a server were closed because it did not respond.", "server",
		"role")
	serverUnansweredDesc = desc("redis_unanswered_total",
		"Calls without a timely response from a server, which may have executed them.", "server", "role")
	serverRefusedDesc   = desc("redis_refused_total", "Calls not sent because a server was unreachable.", "server", "role")
	serverRedirectsDesc = desc("redis_redirects_total", "Calls redirected to another server.", "server", "role")

	connsDesc          = desc("gateway_connections", "Client connections.")
	connsRefusedDesc   = desc("gateway_connections_refused_total", "Connections refused because there were too many.")
	connsReclaimedDesc = desc("gateway_connections_reclaimed_total", "Idle connections closed to make room for others.")
	uploadsRefusedDesc = desc("gateway_uploads_refused_total",
		"Requests refused because their client had too many open uploads.")
	turnsWaitingDesc = desc("gateway_turns_waiting", "Connections waiting for their turn because the cores are busy.")
	turnWaitsDesc    = desc("gateway_turn_waits_total", "Requests that waited for a turn, by the end of the wait: turn, or overdue after 200 ms without one.", "result")
	inFlightDesc     = desc("gateway_requests_in_flight", "Requests being served.")
	responsesDesc    = desc("gateway_responses_total",
		"Responses by status class; none if the connection was closed without one.", "class")
	retriesDesc       = desc("gateway_retries_total", "Requests retried on another upstream.")
	abortedDesc       = desc("gateway_aborted_total", "Aborted responses.")
	upgradesOpenDesc  = desc("gateway_upgraded_connections", "Open upgraded connections, such as WebSockets.")
	upgradesTotalDesc = desc("gateway_upgrades_total", "Upgraded connections.")
	upgradesEndDesc   = desc("gateway_upgrades_closed_total",
		"Upgraded connections closed by the gateway: idle, or shutdown.", "reason")
	logDesc          = desc("gateway_access_log_lines_total", "Lines of the access log: written or dropped.", "result")
	certificatesDesc = desc("gateway_certificate_loads_total", "Loads of changed certificate files: ok or failed.",
		"result")

	certificateExpiryDesc = desc("certificate_expiry_timestamp_seconds",
		"When the first of a gateway listener's certificates expires.", "listener")

	upstreamUpDesc = desc("upstream_up", "1 if an upstream gets requests, 0 if it is down or ejected.", "route",
		"upstream")
	upstreamInFlightDesc = desc("upstream_requests_in_flight", "Requests being served by an upstream.", "route",
		"upstream")
	upstreamRequestsDesc  = desc("upstream_requests_total", "Requests sent to an upstream.", "route", "upstream")
	upstreamFailedDesc    = desc("upstream_failures_total", "Requests that failed at an upstream.", "route", "upstream")
	upstreamEjectionsDesc = desc("upstream_ejections_total", "Ejections of an upstream because requests failed.", "route",
		"upstream")
	upstreamChecksDesc = desc("upstream_health_checks_total", "Health checks of an upstream: ok or failed.", "route",
		"upstream", "result")
	upstreamConnsDesc = desc("upstream_connections", "Connections to an upstream: idle or busy.", "route", "upstream",
		"state")

	serviceConnsDesc = desc("service_connections", "Connections of a decision service listener: api, grpc or resp.",
		"listener")
	serviceAcceptedDesc = desc("service_connections_total", "Connections to a decision service listener: accepted, "+
		"refused because there were too many, or reclaimed (closed while idle to make room for others).", "listener", "result")

	respCommandsDesc  = desc("resp_commands_total", "Commands from Redis clients.")
	respDecisionsDesc = desc("resp_decisions_total", "Decisions for Redis clients: allowed or denied.", "result")
	respErrorsDesc    = desc("resp_errors_total", "Error replies to Redis clients.")
	respClosedDesc    = desc("resp_connections_closed_total",
		"Connections from Redis clients closed by the server: silent for too long, "+
			"or malformed input.", "reason")
	respTokensDesc   = desc("resp_tokens_refused_total", "Authentication attempts of Redis clients with a wrong token.")
	respFailuresDesc = desc("resp_store_failures_total",
		"Decisions for Redis clients by failure policies because the store failed.")

	envoyRequestsDesc = desc("envoy_requests_total",
		"Requests from Envoy by response: ok or over_limit; refused if they were invalid "+
			"or there is no configuration.", "code")
	envoyHitsDesc = desc("envoy_hits_total",
		"Hits on the limits of the Envoy configuration: within the limit, near it (less than a fifth was left), over it, "+
			"or over it and let pass (shadow).",
		"domain", "descriptor", "result")
	envoyDegradedDesc = desc("envoy_degraded_total", "Descriptors decided by a policy because the store failed.")
	envoyUnknownDesc  = desc("envoy_unknown_domain_total", "Requests from Envoy for unknown domains; they pass.")
	envoyLoadsDesc    = desc("envoy_config_loads_total", "Attempts to load the Envoy configuration: ok or refused.", "result")
)

// Names of the metrics that are updated when something happens. The others are collected at each scrape.
const (
	decisionSeconds = "headgate_decision_seconds"
	storeSeconds    = "headgate_store_seconds"
	shardSeconds    = "headgate_store_shard_seconds"
	gatewaySeconds  = "headgate_gateway_request_seconds"
	upstreamSeconds = "headgate_upstream_request_seconds"
	storeErrors     = "headgate_store_errors_total"
	faults          = "headgate_faults_total"
)

const prefix = "headgate_"

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}
