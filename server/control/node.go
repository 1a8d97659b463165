package control

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
)

// A Node is a heartbeat: the state of a node, as the node reports it.
type Node struct {
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	Version   string `json:"version"`
	Address   string `json:"address,omitempty"` // URL of its admin listener, if any
	Region    string `json:"region,omitempty"`
	// Revision is the revision of the rules that the node applies.
	Revision int64 `json:"revision"`
	// LagMS is the time between the commit of that revision and its use by the node; 0 if the node started later.
	LagMS int64 `json:"lag_ms"`
	// FromDisk means that the rules are from the node's disk, because the rules service is unreachable.
	FromDisk bool `json:"from_disk,omitempty"`
	// Error is why the node refuses newer rules.
	Error string `json:"error,omitempty"`
	// Store is "ok" or the error of the node's counter store. StoreSince is when the error began.
	Store      string    `json:"store"`
	StoreSince time.Time `json:"store_since,omitzero"`
	// Counters identifies the node's counter store. Nodes with the same value share a store. Empty means that the node
	// counts in its own memory.
	Counters string `json:"counters,omitempty"`
	// Fleet has statistics about shared limits. It is nil if the node shares none, or has an old version.
	Fleet *FleetStats `json:"fleet,omitempty"`
	// Health has the statistics that alerts depend on. It is nil if the node has an old version.
	Health *HealthStats `json:"health,omitempty"`
	// EnforcementOff are the suspensions that were created on the node itself. Those of the rules service are not here.
	EnforcementOff []Suspension `json:"enforcement_off,omitempty"`
	// QueryKey is the secret key with which the rules service signs its queries to the node.
	QueryKey string    `json:"ask_key,omitempty"`
	Started  time.Time `json:"started"`

	// The rules service sets the following fields. Seen is the time of the last heartbeat, and By the ID of the token
	// that the node used for it. Behind reports whether there are newer rules.
	Seen   time.Time `json:"seen,omitzero"`
	By     string    `json:"by,omitempty"`
	Behind bool      `json:"behind,omitempty"`
}

// Problems returns the invalid fields of a heartbeat.
func (n *Node) Problems() []source.Problem {
	var list []source.Problem
	for _, text := range []struct{ path, value string }{
		{"version", n.Version},
		{"address", n.Address},
		{"region", n.Region},
		{"error", n.Error},
		{"store", n.Store},
		{"counters", n.Counters},
		{"ask_key", n.QueryKey},
	} {
		if len(text.value) > rules.MaxText {
			list = append(list, source.Problem{Path: text.path, Want: fmt.Sprintf("at most %d bytes", rules.MaxText)})
		}
	}
	for _, field := range []struct {
		path       string
		value, max int64
	}{{"revision", n.Revision, MaxStat}, {"lag_ms", n.LagMS, MaxStatMS}} {
		if field.value < 0 || field.value > field.max {
			want := fmt.Sprintf("0 to %d", field.max)
			list = append(list, source.Problem{Path: field.path, Value: fmt.Sprint(field.value), Want: want})
		}
	}
	list = append(list, suspensionProblems(n.EnforcementOff)...)
	if n.Fleet != nil {
		for _, p := range n.Fleet.Problems() {
			p.Path = "fleet." + p.Path
			list = append(list, p)
		}
	}
	if n.Health != nil {
		for _, p := range n.Health.Problems() {
			p.Path = "health." + p.Path
			list = append(list, p)
		}
	}
	return list
}
