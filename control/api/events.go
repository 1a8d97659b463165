package api

import (
	"bytes"
	"context"
	"maps"
	"strings"
	"time"

	"github.com/headgate/headgate/control"
)

// What is done and changes no object stands in the audit all the same, as an event: under which name, and what is told of it.
const (
	eventReset   = "keys.reset"
	eventRestore = "restore"
	eventNode    = "nodes.delete"
)

// A resetEvent is a client whose counters were forgotten.
type resetEvent struct {
	// Client is who, without values that may be secret.
	Client map[string]string `json:"client"`
	// Rules are those under which, More how many there are beside them.
	Rules []string `json:"rules"`
	More  int      `json:"more,omitempty"`
	// Nodes is how many have answered, Error what the others say.
	Nodes int    `json:"nodes"`
	Error string `json:"error,omitempty"`
}

// A restoreEvent is a backup that took the place of everything.
type restoreEvent struct {
	// Revision is what the backup was at, Replaced what was at before.
	Revision int64 `json:"revision"`
	Replaced int64 `json:"replaced"`
}

// A nodeEvent is a node that somebody has removed by hand.
type nodeEvent struct {
	Node string    `json:"node"`
	Seen time.Time `json:"seen"`
}

// record puts an event into the audit. It is done already, so that a fault is the log's to tell, and one who has hung up is told of
// all the same.
func (s *Server) record(c *call, namespace, event string, what any) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), callTime)
	defer cancel()
	var body bytes.Buffer
	err := encode(&body, what)
	if err == nil {
		change := c.change(namespace, event)
		change.Ops = []control.Op{{Kind: control.KindEvent, ID: event, Base: control.Any, Body: bytes.TrimSpace(body.Bytes())}}
		err = s.config.DB.Commit(ctx, change)
	}
	if err != nil {
		s.config.Logger.Error("rules service: what was done is not in the audit", "event", event, "by", c.who.ID, "from", c.from, "err", err.Error())
	}
}

// Bounds of what is told of an event.
const (
	maxEventRules = 100
	maxEventText  = 256
)

// hidden stands for a value that may be a secret.
const hidden = "(hidden)"

// told returns attributes as an event tells them.
func told(attributes map[string]string) map[string]string {
	made := maps.Clone(attributes)
	for name, value := range made {
		if mayBeSecret(name) {
			value = hidden
		}
		made[name] = abridged(value, maxEventText)
	}
	return made
}

// mayBeSecret reports whether the values of an attribute may be credentials.
func mayBeSecret(name string) bool {
	switch kind, _, _ := strings.Cut(name, "."); kind {
	case "api_key", "bearer", "cookie", "header", "query":
		return true
	default:
		return false
	}
}

// abridged shortens a text to so many bytes, at a border of its characters.
func abridged(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
