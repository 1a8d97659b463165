package telemetry

import "time"

// A Status is how a node is, as /readyz says it.
type Status struct {
	// State is starting, ready or draining. Only one that is ready should get requests.
	State State `json:"state"`
	// Degraded reports whether something is wrong although requests are decided: the store is unreachable, rules were refused,
	// the database cannot be written, or keys that verify tokens cannot be read. The fields below say which.
	Degraded bool `json:"degraded"`
	// Version is that of the program.
	Version string `json:"version,omitempty"`
	// Started is when it was.
	Started time.Time `json:"started,omitzero"`
	// Rules says which are in force.
	Rules RulesStatus `json:"rules"`
	// Database is where the rules service of this process keeps rules, if it has one. A node whose database cannot be written
	// still decides, and is ready.
	Database *DatabaseStatus `json:"database,omitempty"`
	// Store says where limits are counted.
	Store StoreStatus `json:"store"`
	// Fleet says how limits are shared with other nodes, if they are.
	Fleet *FleetStatus `json:"fleet,omitempty"`
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
	// Follow says how they are followed, if they are those of a rules service.
	Follow *FollowStatus `json:"follow,omitempty"`
}

// FollowStatus is how the rules of a rules service are followed.
type FollowStatus struct {
	Namespace string `json:"namespace"`
	// Clients and Overrides are how many are registered, and hold.
	Clients   int `json:"clients"`
	Overrides int `json:"overrides"`
	// Checked is when the service last said that there are no later rules, and LagMS how long after they were committed those in
	// force came into force.
	Checked time.Time `json:"checked,omitzero"`
	LagMS   int64     `json:"lag_ms"`
	// FromDisk tells that the rules are those of the node's own file, because the service was never reached.
	FromDisk bool `json:"from_disk"`
	// Push tells that the service says at once when something changes.
	Push bool `json:"push"`
	// Away is why the service cannot be asked, Disk why the node does not keep its rules in a file.
	Away string `json:"away,omitempty"`
	Disk string `json:"disk,omitempty"`
	// Doubt is what is suspicious about a client that came last.
	Doubt string `json:"doubt,omitempty"`
}

// DatabaseStatus is whether rules can be changed.
type DatabaseStatus struct {
	Name     string `json:"name"`
	Writable bool   `json:"writable"`
	// Error is why it cannot be written, and Todo what to do about it.
	Error string `json:"error,omitempty"`
	Todo  string `json:"todo,omitempty"`
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
	Name string `json:"name,omitempty"`
	// Up tells that it decides. If not, policies do, be it that it is not reached, does not answer, or answers that it cannot decide.
	Up    bool      `json:"up"`
	Since time.Time `json:"since,omitzero"`
	// Error is why it does not, or not for some key, and the cure.
	Error string `json:"error,omitempty"`
}

// FleetStatus is how limits are shared with other nodes.
type FleetStatus struct {
	// Live is how many nodes are heard of, this one included, and Known how many there are.
	Live  int `json:"live"`
	Known int `json:"known"`
	// News is how each way is in which nodes or regions tell each other what they took.
	News []NewsStatus `json:"news,omitempty"`
}

// NewsStatus is one way in which nodes or regions tell each other what they took.
type NewsStatus struct {
	Mode string `json:"mode"`
	Up   bool   `json:"up"`
	// LagMS is how old news is, and Over how many units passed beyond limits before it was known.
	LagMS int64 `json:"lag_ms"`
	Over  int64 `json:"over"`
	// DateAheadMS is by how much the date of the fleet is ahead of this node's, and DatesOff how many nodes are known to be off by
	// more than a second.
	DateAheadMS int64 `json:"date_ahead_ms"`
	DatesOff    int64 `json:"dates_off,omitempty"`
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
