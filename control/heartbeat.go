package control

import (
	"fmt"
	"time"
)

// A Node is what a node says of itself with each heartbeat.
type Node struct {
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	Version   string `json:"version"`
	Address   string `json:"address,omitempty"` // where its admin listener is, if anywhere
	Region    string `json:"region,omitempty"`
	// Revision is that of the rules it has in force.
	Revision int64 `json:"revision"`
	// LagMS is how long after the change was committed they were in force there; 0 if it was before the node was started.
	LagMS int64 `json:"lag_ms"`
	// FromDisk says that they are of its own file, since the rules service was away.
	FromDisk bool `json:"from_disk,omitempty"`
	// Error is why it could not take later ones.
	Error string `json:"error,omitempty"`
	// Store is how the store of its counters is: "ok", or what is wrong.
	Store string `json:"store"`
	// Counters is the store that its counters are in, which it shares with the nodes that name the same; empty if each of them
	// is in its own memory.
	Counters string `json:"counters,omitempty"`
	// Fleet is how it shares limits with others. Nil if it does not, or if it is of a version that does not tell.
	Fleet *FleetFigures `json:"fleet,omitempty"`
	// AskKey is with what it wants to be asked about clients. It is not shown.
	AskKey  string    `json:"ask_key,omitempty"`
	Started time.Time `json:"started"`
	// Seen is when it was last heard of, By by whose token, Behind whether there are later rules than it has: the rules service fills
	// them in.
	Seen   time.Time `json:"seen,omitzero"`
	By     string    `json:"by,omitempty"`
	Behind bool      `json:"behind,omitempty"`
}

// Misfits returns what is wrong with the figures of a node, as somebody else has sent them.
func (n *Node) Misfits() []Misfit {
	var list []Misfit
	for _, figure := range []struct {
		path     string
		is, most int64
	}{{"revision", n.Revision, MaxFigure}, {"lag_ms", n.LagMS, MaxFigureMS}} {
		if figure.is < 0 || figure.is > figure.most {
			list = append(list, Misfit{figure.path, fmt.Sprint(figure.is), fmt.Sprintf("0 to %d", figure.most)})
		}
	}
	if n.Fleet != nil {
		for _, m := range n.Fleet.Misfits() {
			m.Path = "fleet." + m.Path
			list = append(list, m)
		}
	}
	return list
}
