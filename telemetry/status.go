package telemetry

import "time"

// A Status is how a node is, as /readyz says it.
type Status struct {
	// State is starting, ready or draining. Only one that is ready should get requests.
	State State `json:"state"`
	// Degraded tells that something is not as it should be, although requests are decided: the store is away, rules were
	// refused, or keys that verify tokens cannot be read. What it is stands below.
	Degraded bool `json:"degraded"`
	// Version is that of the program.
	Version string `json:"version,omitempty"`
	// Started is when it was.
	Started time.Time `json:"started,omitzero"`
	// Rules says which are in force.
	Rules RulesStatus `json:"rules"`
	// Store says where limits are counted.
	Store StoreStatus `json:"store"`
	// Identity says what is wrong with telling who is asking.
	Identity IdentityStatus `json:"identity,omitzero"`
	// Upstreams says who gets requests. Those that do not are no reason not to be ready: no other node would reach them either.
	Upstreams []UpstreamStatus `json:"upstreams,omitempty"`
	// Listeners are the addresses in use, by name.
	Listeners map[string]string `json:"listeners,omitempty"`
}

// A State is what a node does.
type State string

// The states.
const (
	Starting State = "starting"
	Ready    State = "ready"
	Draining State = "draining"
)

// RulesStatus is which rules are in force.
type RulesStatus struct {
	Source   string    `json:"source"`
	Revision uint64    `json:"revision"`
	Count    int       `json:"count"`
	Loaded   time.Time `json:"loaded,omitzero"`
	// Error is why the rules last read were refused, so that older ones are in force. Empty if they were not.
	Error string `json:"error,omitempty"`
}

// StoreStatus is where limits are counted.
type StoreStatus struct {
	Kind   string        `json:"kind"`
	Shards []ShardStatus `json:"shards,omitempty"`
	// Warnings are settings of the store that break limits.
	Warnings []string `json:"warnings,omitempty"`
}

// ShardStatus is one server of the store that is asked for itself.
type ShardStatus struct {
	Name  string    `json:"name,omitempty"`
	Up    bool      `json:"up"`
	Since time.Time `json:"since,omitzero"`
	Error string    `json:"error,omitempty"`
}

// IdentityStatus is what is wrong with telling who is asking.
type IdentityStatus struct {
	// Error is why the keys that verify tokens could not be read. Those read before may still be in use.
	Error string `json:"error,omitempty"`
}

// UpstreamStatus is one service behind the gateway.
type UpstreamStatus struct {
	Route string `json:"route,omitempty"`
	URL   string `json:"url"`
	Up    bool   `json:"up"`
	Error string `json:"error,omitempty"`
}
