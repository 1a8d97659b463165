package edit

import (
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Revision describes a change in a response of the API.
type Revision struct {
	Revision  int64     `json:"revision"`
	Namespace string    `json:"namespace"`
	Time      time.Time `json:"time"`
	Actor     string    `json:"actor"`
	From      string    `json:"from,omitempty"` // network address of the actor; only in the audit log
	Action    string    `json:"action"`
	Note      string    `json:"note,omitempty"`
	// Count is the number of changed objects. Changes lists the first of them. Diff is the same list with bodies and
	// texts.
	Count   int          `json:"count"`
	Changes []Difference `json:"changes,omitempty"`
	Diff    []Difference `json:"diff,omitempty"`
}

// NewRevision returns the description of a change, without its objects.
func NewRevision(c *control.Change) Revision {
	return Revision{
		Revision: c.Revision, Namespace: c.Namespace, Time: c.Time, Actor: c.Actor, Action: c.Action, Note: c.Note,
	}
}
