package telemetry

import (
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Status is the state of a node, as /readyz reports it.
type Status struct {
	// State is starting, ready or draining. Only a ready node should get requests.
	State State `json:"state"`
	// Degraded reports a problem that does not stop decisions: the store is unreachable, rules were refused, the
	// database cannot be written, or token keys cannot be read. The fields below say which.
	Degraded bool `json:"degraded"`
	// EnforcementOff are the rules that are not enforced for a time. It makes a node neither degraded nor unready.
	EnforcementOff []control.Suspension `json:"enforcement_off,omitempty"`
	// Warnings are settings that are probably wrong. They make a node neither degraded nor unready.
	Warnings []string `json:"warnings,omitempty"`
	// Version is the program's version.
	Version string `json:"version,omitempty"`
	// Started is when the program started.
	Started time.Time `json:"started,omitzero"`
	// Rules describes the rules in force.
	Rules RulesStatus `json:"rules"`
	// Database describes the database of the rules service in this process, if there is one. A node whose database
	// cannot be written still decides, and is ready.
	Database *DatabaseStatus `json:"database,omitempty"`
	// Store describes where limits are counted.
	Store StoreStatus `json:"store"`
	// Fleet describes how limits are shared with other nodes, if they are.
	Fleet *control.FleetStats `json:"fleet,omitempty"`
	// Identity describes problems with identifying clients.
	Identity IdentityStatus `json:"identity,omitzero"`
	// Upstreams describes which upstreams get requests. Failed upstreams do not make a node unready: no other node
	// would reach them either.
	Upstreams []UpstreamStatus `json:"upstreams,omitempty"`
	// DemoTraffic is on or off if the node has a built-in service and the demo rules are in force, otherwise empty.
	DemoTraffic string `json:"demo_traffic,omitempty"`
	// Listeners are the addresses in use, by name.
	Listeners map[string]string `json:"listeners,omitempty"`
}

// Enforcement are figures about enforcement that is off.
type Enforcement struct {
	// RulesOff is the number of rules that are not enforced, without shadow rules, which never are.
	RulesOff int
	// Suspensions is the number of suspensions in force by scope.
	Suspensions map[string]int
	// Ends is when the last of them ends, zero if there is none.
	Ends time.Time
}

// A State is the phase of a node's life.
type State string

// The states.
const (
	Starting State = "starting"
	Ready    State = "ready"
	Draining State = "draining"
)

// RulesStatus describes the rules in force.
type RulesStatus struct {
	Source   string    `json:"source"`
	Revision uint64    `json:"revision"`
	Count    int       `json:"count"`
	Loaded   time.Time `json:"loaded,omitzero"`
	// Error says why the rules that were last read were refused, so that older ones are in force. It is empty if they
	// were accepted.
	Error string `json:"error,omitempty"`
	// Follow describes how the rules service is followed, if there is one.
	Follow *FollowStatus `json:"follow,omitempty"`
}

// FollowStatus describes how a node follows a rules service.
type FollowStatus struct {
	Namespace string `json:"namespace"`
	// Clients is the number of registered clients, Overrides the number of overrides in force.
	Clients   int `json:"clients"`
	Overrides int `json:"overrides"`
	// Checked is when the service last confirmed the rules, and LagMS the time from their commit to their coming into
	// force.
	Checked time.Time `json:"checked,omitzero"`
	LagMS   int64     `json:"lag_ms"`
	// FromDisk reports that the rules are from the node's own file, because the service was not reached yet.
	FromDisk bool `json:"from_disk"`
	// Push reports that the service signals changes.
	Push bool `json:"push"`
	// Unreachable says why the service is unreachable, and is empty otherwise.
	Unreachable string `json:"unreachable,omitempty"`
	// DiskError says why the rules cannot be saved to the node's disk or read from it, and is empty otherwise.
	DiskError string `json:"disk,omitempty"`
	// SuspiciousClient describes the last suspicious client.
	SuspiciousClient string `json:"suspicious,omitempty"`
}

// DatabaseStatus reports whether rules can be changed.
type DatabaseStatus struct {
	Name     string `json:"name"`
	Writable bool   `json:"writable"`
	// Error says why it cannot be written, and Todo how to fix it.
	Error string `json:"error,omitempty"`
	Todo  string `json:"todo,omitempty"`
}

// StoreStatus describes where limits are counted.
type StoreStatus struct {
	Kind   string        `json:"kind"`
	Shards []ShardStatus `json:"shards,omitempty"`
	// Warnings are settings of the store that can make limits inexact.
	Warnings []string `json:"warnings,omitempty"`
}

// ShardStatus is one server of the store, with its own circuit breaker.
type ShardStatus struct {
	Name string `json:"name,omitempty"`
	// Up reports whether it responds, without errors. If not, the rules' on_failure policies apply. Since is when Up
	// last changed.
	Up    bool      `json:"up"`
	Since time.Time `json:"since,omitzero"`
	// Error is why it fails, possibly only for some keys, and how to fix it.
	Error string `json:"error,omitempty"`
}

// IdentityStatus describes problems with identifying clients.
type IdentityStatus struct {
	// Error is why token keys could not be read. Earlier keys may still be in use.
	Error string `json:"error,omitempty"`
}

// UpstreamStatus is one service behind the gateway.
type UpstreamStatus struct {
	Route string `json:"route,omitempty"`
	URL   string `json:"url"`
	Up    bool   `json:"up"`
	Error string `json:"error,omitempty"`
}
