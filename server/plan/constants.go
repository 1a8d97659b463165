package plan

// A Constant is a measured or chosen figure.
type Constant struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Source string  `json:"source"`
}

// Constants are the figures that a plan is calculated from.
type Constants struct {
	// NodeDecisions is the number of decisions per second of a node over gRPC. It was measured with the load
	// generator on the same two cores.
	NodeDecisions Constant `json:"node_decisions"`
	// ShardCalls is the number of calls per second of a Redis shard, with one limit in each call and 64 calls in
	// flight. bench load and --calibrate measure the same.
	ShardCalls Constant `json:"shard_calls"`
	// LimitWork is the additional work of each further limit in a call, as a share of the work of a call with one limit.
	LimitWork Constant `json:"limit_work"`
	// NodeBytes and ShardBytes are the memory of one counter in a node and in Redis.
	NodeBytes  Constant `json:"node_bytes"`
	ShardBytes Constant `json:"shard_bytes"`
	// CallBytes is the number of bytes of a call to Redis, sent and received.
	CallBytes Constant `json:"call_bytes"`
	// UpdateBytes is the number of bytes that a node sends to its peers for each decision in async mode.
	UpdateBytes Constant `json:"update_bytes"`
	// LeaseCalls is the number of calls per second that a node makes for one hot key in lease mode.
	LeaseCalls Constant `json:"lease_calls"`
	// RoundTrip is the median time of a decision in Redis at half load, in microseconds.
	RoundTrip Constant `json:"round_trip"`
}

// DefaultMachine is the machine on which the defaults were measured.
const DefaultMachine = "two cores of an Intel Xeon"

// The table that a memstore needs for 100 M counters, and how many counters are in it when its parts begin to double,
// and when all of them have doubled. Tables that are larger or smaller by a power of two are like it.
const (
	tableBytes = 2.23e9
	tableFull  = 104e6
	tableGrown = 131e6
)

// nodeBytes returns the memory per counter of a node with the given number of counters. It is highest when the table
// has just grown.
func nodeBytes(counters float64) float64 {
	counters = max(counters, 1)
	for counters > tableFull {
		counters /= 2
	}
	for counters <= tableFull/2 {
		counters *= 2
	}
	grown := min((counters-tableFull/2)/((tableGrown-tableFull)/2), 1)
	return tableBytes / 2 * (1 + grown) / counters
}

// Defaults returns constants measured on DefaultMachine, for nodes with the given number of counters.
func Defaults(counters float64) Constants {
	const results = "bench/RESULTS.md: "
	return Constants{
		NodeDecisions: Constant{"decisions per node", 188_724, "/s", results + "gRPC, 64 requests in flight"},
		ShardCalls:    Constant{"calls per Redis shard", 121_200, "/s", results + "Redis, 64 goroutines, 8248 ns each"},
		LimitWork:     Constant{"work of a further limit in a call", 1, "of a call", "plan --calibrate: 0.8 to 1.4"},
		NodeBytes: Constant{
			"memory of a counter in a node", nodeBytes(counters), "bytes", results + "100 M keys; tables double",
		},
		ShardBytes:  Constant{"memory of a counter in Redis", 178, "bytes", "docs/redis.md: token-bucket"},
		CallBytes:   Constant{"traffic of a call to Redis", 204, "bytes", "INFO during bench load on redis-store"},
		UpdateBytes: Constant{"traffic of a decision between peers", 93, "bytes", results + "gossip, ten hosts"},
		LeaseCalls:  Constant{"calls for a leased hot key", 16.5, "/s per node", results + "leases, hot key"},
		RoundTrip:   Constant{"round trip to Redis", 204, "µs", results + "a decision at half load"},
	}
}

// List returns the constants in the order in which they are shown.
func (c Constants) List() []Constant {
	return []Constant{
		c.NodeDecisions, c.ShardCalls, c.LimitWork, c.NodeBytes, c.ShardBytes, c.CallBytes, c.UpdateBytes, c.LeaseCalls,
		c.RoundTrip,
	}
}
