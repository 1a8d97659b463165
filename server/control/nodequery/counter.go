package nodequery

// Counters are the counters of a client under each rule, on all nodes.
type Counters struct {
	Keys  []Counter    `json:"keys"`
	More  int          `json:"more,omitempty"` // rules that are not listed
	Nodes []NodeStatus `json:"nodes"`
	Error string       `json:"error,omitempty"` // failures of nodes and stores
}

// A Counter is the state of a rule for a client, in one node or in a store that several nodes share.
type Counter struct {
	Rule
	// Node is the node that has the counter in memory, and Region its region.
	Node   string `json:"node,omitempty"`
	Region string `json:"region,omitempty"`
	// Counters identifies the shared store that has the counter.
	Counters string `json:"counters,omitempty"`
}

// A ResetReport is the result of a reset of a client's counters.
type ResetReport struct {
	Reset []string     `json:"reset"` // IDs of rules
	Nodes []NodeStatus `json:"nodes"`
	Error string       `json:"error,omitempty"` // nodes whose counters may not be reset
}
