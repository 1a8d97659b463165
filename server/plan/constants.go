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
	// OnNode is the speed of decisions that a node makes by itself, and InRedis that of decisions for which it calls
	// Redis. Both are over gRPC, with the load generator, and Redis, on the same two cores.
	OnNode  NodeSpeed `json:"on_node"`
	InRedis NodeSpeed `json:"in_redis"`
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
	// SyncCallWork is the time that Redis works for a call that exchanges updates. NoteWork is the additional time of
	// each note in it, PeerNoteWork that of each note of another author on the same key, and TotalWork that of a key in
	// a call that adds up the totals of a region. All are in microseconds.
	SyncCallWork Constant `json:"sync_call_work"`
	NoteWork     Constant `json:"note_work"`
	PeerNoteWork Constant `json:"peer_note_work"`
	TotalWork    Constant `json:"total_work"`
	// SyncCallBytes is the number of bytes of a call that exchanges updates, sent and received. SentNoteBytes and
	// ReadNoteBytes are those of a note that a node sends and receives.
	SyncCallBytes Constant `json:"sync_call_bytes"`
	SentNoteBytes Constant `json:"sent_note_bytes"`
	ReadNoteBytes Constant `json:"read_note_bytes"`
	// TotalBytes is the number of bytes of a key in a call that adds up the totals of a region.
	TotalBytes Constant `json:"total_bytes"`
	// NoteKeyBytes is the memory in Redis of a key with notes, and NoteBytes that of each note.
	NoteKeyBytes Constant `json:"note_key_bytes"`
	NoteBytes    Constant `json:"note_bytes"`
	// LedgerBytes is the memory on a node of a counter that is shared with peers, and PeerBytes that of each peer's part.
	LedgerBytes Constant `json:"ledger_bytes"`
	PeerBytes   Constant `json:"peer_bytes"`
	// LeaseCalls is the number of calls per second that a node makes for one hot key in lease mode.
	LeaseCalls Constant `json:"lease_calls"`
	// RoundTrip is the median time of a decision in Redis at half load, in microseconds.
	RoundTrip Constant `json:"round_trip"`
}

// A NodeSpeed is how many decisions a node makes.
type NodeSpeed struct {
	// Decisions is the number of decisions per second with one limit.
	Decisions Constant `json:"decisions"`
	// LimitWork is the additional work of each further limit, as a share of the work of a decision with one limit.
	LimitWork Constant `json:"limit_work"`
}

// work returns the work of a decision with the given number of limits, as a multiple of one with one limit.
func (s *NodeSpeed) work(limits int) float64 { return 1 + s.LimitWork.Value*float64(limits-1) }

// DefaultMachine is the kind of machine on which the defaults were measured.
const DefaultMachine = "two cores of an Intel Xeon or AMD EPYC"

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
	const (
		benchLoad  = "bench load --rate max on two cores of an AMD EPYC"
		results    = "bench/RESULTS.md: "
		syncTest   = "TestSoakPlanOfAsyncIsWhatNodesNeed in server/cmd/headgate"
		ledgerTest = "TestMemoryOfSharedCounters in server/plan"
		exchanges  = "BenchmarkExchange in server/fleet/fleetredis"
		totals     = "BenchmarkTotals in server/fleet/fleetredis"
	)
	return Constants{
		OnNode: NodeSpeed{
			Constant{"decisions on a node", 188_724, "/s", results + "gRPC, 64 requests in flight"},
			Constant{"work of a further limit on a node", 0.1, "of a decision", benchLoad + ", 1 to 4 limits"},
		},
		InRedis: NodeSpeed{
			Constant{"decisions of a node in Redis", 28_000, "/s", benchLoad + " with Redis: 23k to 39k"},
			Constant{"work of a further limit in Redis", 0.4, "of a decision", benchLoad + ": processor time, 1 to 4 limits"},
		},
		ShardCalls: Constant{"calls per Redis shard", 121_200, "/s", results + "Redis, 64 goroutines, 8248 ns each"},
		LimitWork:  Constant{"work of a further limit in a call", 1, "of a call", "plan --calibrate: 0.8 to 1.4"},
		NodeBytes: Constant{
			"memory of a counter in a node", nodeBytes(counters), "bytes", results + "100 M keys; tables double",
		},
		ShardBytes:    Constant{"memory of a counter in Redis", 178, "bytes", "docs/redis.md: token-bucket"},
		SyncCallWork:  Constant{"work of a call with updates", 20, "µs", exchanges},
		NoteWork:      Constant{"work of each note in a call", 3.3, "µs", exchanges},
		PeerNoteWork:  Constant{"work of each note of a peer on its key", 1, "µs", exchanges},
		TotalWork:     Constant{"work of a key in a call of totals", 10, "µs", totals},
		SyncCallBytes: Constant{"traffic of a call with updates", 288, "bytes", syncTest},
		SentNoteBytes: Constant{"traffic of a note to Redis", 72, "bytes", syncTest},
		ReadNoteBytes: Constant{"traffic of a note from Redis", 65, "bytes", syncTest},
		TotalBytes:    Constant{"traffic of a key in a call of totals", 170, "bytes", totals},
		NoteKeyBytes:  Constant{"memory of a key with notes in Redis", 105, "bytes", syncTest},
		NoteBytes:     Constant{"memory of a note in Redis", 48, "bytes", syncTest},
		LedgerBytes:   Constant{"memory of a shared counter in a node", 410, "bytes", ledgerTest},
		PeerBytes:     Constant{"memory of a peer's part in it", 96, "bytes", "server/fleet/internal/ledger"},
		CallBytes:     Constant{"traffic of a call to Redis", 204, "bytes", "INFO during bench load on redis-store"},
		LeaseCalls:    Constant{"calls for a leased hot key", 16.5, "/s per node", results + "leases, hot key"},
		RoundTrip:     Constant{"round trip to Redis", 204, "µs", results + "a decision at half load"},
	}
}

// List returns the constants in the order in which they are shown.
func (c Constants) List() []Constant {
	return []Constant{
		c.OnNode.Decisions, c.OnNode.LimitWork, c.InRedis.Decisions, c.InRedis.LimitWork,
		c.ShardCalls, c.LimitWork, c.NodeBytes, c.ShardBytes, c.CallBytes, c.LeaseCalls, c.RoundTrip,
		c.SyncCallWork, c.NoteWork, c.PeerNoteWork, c.TotalWork,
		c.SyncCallBytes, c.SentNoteBytes, c.ReadNoteBytes, c.TotalBytes,
		c.NoteKeyBytes, c.NoteBytes, c.LedgerBytes, c.PeerBytes,
	}
}
