package telemetry

import (
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Status is the state of a node, as /readyz reports it.
type Status struct {
	// State is starting, ready or draining. Only a ready node should receive requests.
	State State `json:"state"`
	// Degraded reports a problem that does not stop decisions: the store is unreachable, rules were refused, the
	// database cannot be written, or token keys cannot be read. The fields below have the details.
	Degraded bool `json:"degraded"`
	// EnforcementOff are the suspensions in force, which turn off the enforcement of rules for some time. They make a node
	// neither degraded nor unready.
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
	// Store describes the store of the counters.
	Store StoreStatus `json:"store"`
	// Fleet describes how limits are shared with other nodes, if they are.
	Fleet *control.FleetStats `json:"fleet,omitempty"`
	// Identity describes problems with identifying clients.
	Identity IdentityStatus `json:"identity,omitzero"`
	// Upstreams are the upstreams of the gateway. Failed upstreams do not make a node unready, because other nodes could
	// not reach them either.
	Upstreams []UpstreamStatus `json:"upstreams,omitempty"`
	// DemoTraffic is on or off if the node has a built-in service and the demo rules are in force, otherwise empty.
	DemoTraffic string `json:"demo_traffic,omitempty"`
	// Listeners are the addresses in use, by name.
	Listeners map[string]string `json:"listeners,omitempty"`
}

// Enforcement has statistics about suspensions, which turn off the enforcement of rules.
type Enforcement struct {
	// RulesOff is the number of suspended rules. Rules that are always shadow rules do not count.
	RulesOff int
	// Suspensions is the number of suspensions in force by scope.
	Suspensions map[string]int
	// Ends is the time when the last suspension ends, zero if there is none.
	Ends time.Time
}

// A State is the state of a node between its start and its end.
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
	// Error is the reason why the rules that were read last were refused, in which case older rules are in force. It is
	// empty if they were accepted.
	Error string `json:"error,omitempty"`
	// Follow describes the connection to the rules service, nil if there is none.
	Follow *FollowStatus `json:"follow,omitempty"`
}

// FollowStatus describes how a node gets its rules from a rules service.
type FollowStatus struct {
	Namespace string `json:"namespace"`
	// Clients is the number of registered clients, Overrides the number of overrides in force.
	Clients   int `json:"clients"`
	Overrides int `json:"overrides"`
	// Checked is the time when the service last confirmed the rules. LagMS is the time from the commit of the rules until
	// they were in force on this node.
	Checked time.Time `json:"checked,omitzero"`
	LagMS   int64     `json:"lag_ms"`
	// FromDisk reports whether the rules are from the node's disk, because the service has not responded since the start.
	FromDisk bool `json:"from_disk"`
	// Push reports whether the service signals changes.
	Push bool `json:"push"`
	// Unreachable is the reason why the service is unreachable, otherwise empty.
	Unreachable string `json:"unreachable,omitempty"`
	// DiskError is the reason why rules cannot be written to the node's disk or read from it, otherwise empty.
	DiskError string `json:"disk,omitempty"`
	// SuspiciousClient describes a registered client that probably does not have the intended effect, if there is one.
	SuspiciousClient string `json:"suspicious,omitempty"`
}

// DatabaseStatus describes the database of the rules service.
type DatabaseStatus struct {
	Name     string `json:"name"`
	Writable bool   `json:"writable"`
	// Error is the reason why the database cannot be written, and Todo how to fix it.
	Error string `json:"error,omitempty"`
	Todo  string `json:"todo,omitempty"`
}

// StoreStatus describes the store of the counters.
type StoreStatus struct {
	Kind   string        `json:"kind"`
	Shards []ShardStatus `json:"shards,omitempty"`
	// Warnings are settings of the store that can make limits inexact.
	Warnings []string `json:"warnings,omitempty"`
}

// ShardStatus describes one shard of the store, which has its own circuit breaker.
type ShardStatus struct {
	Name string `json:"name,omitempty"`
	// Up reports whether the shard responds without errors. If not, the on_failure policies of the rules apply. Since is
	// the time when Up last changed.
	Up    bool      `json:"up"`
	Since time.Time `json:"since,omitzero"`
	// Error is the last error, and how to fix it. The error may concern only some keys.
	Error string `json:"error,omitempty"`
	// Replaced means that the server of the shard is down, but another server has taken its place: decisions do not need
	// it.
	Replaced bool `json:"replaced,omitempty"`
}

// IdentityStatus describes problems with identifying clients.
type IdentityStatus struct {
	// Error is the reason why token keys could not be read. Earlier keys may still be in use.
	Error string `json:"error,omitempty"`
}

// UpstreamStatus is one service behind the gateway.
type UpstreamStatus struct {
	Route string `json:"route,omitempty"`
	URL   string `json:"url"`
	Up    bool   `json:"up"`
	Error string `json:"error,omitempty"`
}
