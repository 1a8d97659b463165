package api

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/control/token"
	"github.com/headgate/headgate/server/internal/logins"
)

// listAudit serves GET /v1/audit. It returns all changes in the caller's namespaces. A caller whose token is valid for
// all namespaces also gets the failed logins.
func (s *Server) listAudit(c *call.Call) error {
	q, limit, err := logQuery(c)
	if err != nil {
		return err
	}
	if name := c.Query.Get("namespace"); name != "" && name != token.AllNamespaces {
		q.Namespace = name
		if !c.Caller.Covers(q.Namespace) {
			return problem.New(http.StatusForbidden, "The token %s is not valid for the namespace %s.", c.Caller.ID, q.Namespace)
		}
	}
	list, next, err := s.history(c.R.Context(), q, limit, func(change *control.Change) edit.Revision {
		return auditedRevision(c.Caller, change)
	})
	if err != nil {
		return err
	}
	response := struct {
		Audit        []edit.Revision `json:"audit"`
		Next         string          `json:"next,omitempty"`
		FailedLogins *logins.Report  `json:"failed_logins,omitempty"`
	}{Audit: list, Next: next}
	if c.Caller.CoversAll() {
		failed := s.config.Logins.Report()
		response.FailedLogins = &failed
	}
	return c.Respond(http.StatusOK, response)
}

// auditedRevision describes a change for the audit log. It has the first of the changed objects that the caller may
// see, without secrets.
func auditedRevision(caller *token.Principal, change *control.Change) edit.Revision {
	r := edit.NewRevision(change)
	r.From = change.From
	for i := range change.Ops {
		op := &change.Ops[i]
		if !mayAudit(caller, change.Namespace, op) {
			continue
		}
		if r.Count++; r.Count > maxListed {
			continue
		}
		before := op.Before
		if op.Kind == control.KindEvent { // op.Before is another event, not an earlier state of this one
			before = nil
		}
		r.Diff = append(r.Diff, edit.Difference{
			Kind: op.Kind, ID: op.ID, Action: edit.Action(before, op.Body),
			Before: withoutSecrets(op.Kind, before), After: withoutSecrets(op.Kind, op.Body),
		})
	}
	return r
}

// mayAudit reports whether the caller may see a changed object. Tokens are in the system namespace: the caller sees the
// tokens that are valid only for its own namespaces.
func mayAudit(caller *token.Principal, namespace string, op *control.Op) bool {
	if caller.Covers(namespace) {
		return true
	}
	if op.Kind != control.KindToken {
		return false
	}
	for _, body := range [][]byte{op.Before, op.Body} {
		if body == nil {
			continue
		}
		if namespaces, err := token.Namespaces(body); err != nil || !caller.CoversEach(namespaces) {
			return false
		}
	}
	return true
}

// withoutSecrets returns the body of an object without secrets.
func withoutSecrets(kind control.Kind, body []byte) json.RawMessage {
	if body == nil || kind.ForNodes() {
		return body
	}
	var fields map[string]json.RawMessage
	err := json.Unmarshal(body, &fields)
	if err == nil {
		delete(fields, "hash")
		delete(fields, "secret")
		body, err = json.Marshal(fields)
	}
	if err != nil {
		return json.RawMessage(`"unreadable"`)
	}
	return body
}

// The names of events in the audit log. Events are actions that change no other object.
const (
	eventReset   = "keys.reset"
	eventRestore = "restore"
	eventNode    = "nodes.delete"
	eventRetry   = "webhooks.retry"
)

// A resetEvent is a reset of a client's counters.
type resetEvent struct {
	// Client are the client's attributes, without values that may be secret.
	Client map[string]string `json:"client"`
	// Rules are the first of the rules that were reset, and More is the number of the others.
	Rules []string `json:"rules"`
	More  int      `json:"more,omitempty"`
	// Nodes is the number of nodes that responded, and Error has the failures of the others.
	Nodes int    `json:"nodes"`
	Error string `json:"error,omitempty"`
}

// A restoreEvent is a restore of the database from a backup.
type restoreEvent struct {
	// Revision is the last revision of the backup. Replaced is the last revision of the database before the restore.
	Revision int64 `json:"revision"`
	Replaced int64 `json:"replaced"`
}

// A nodeEvent is the removal of a node by a person.
type nodeEvent struct {
	Node string    `json:"node"`
	Seen time.Time `json:"seen"`
}

// A retryEvent is a request to send a delivery of a webhook again.
type retryEvent struct {
	Webhook  string `json:"webhook"`
	Delivery int64  `json:"delivery"`
}

// recordEvent adds an event to the audit log, even if the caller has disconnected. It only logs an error, because the
// action has happened and cannot be undone.
func (s *Server) recordEvent(c *call.Call, namespace, name string, event any) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.R.Context()), callTimeout)
	defer cancel()
	var body bytes.Buffer
	err := problem.Encode(&body, event)
	if err == nil {
		change := c.Change(namespace, name)
		change.Ops = []control.Op{{
			Kind: control.KindEvent, ID: name, Base: control.AnyRevision, Body: bytes.TrimSpace(body.Bytes()),
		}}
		err = s.config.DB.Commit(ctx, change)
	}
	if err != nil {
		s.config.Logger.Error("rules service: cannot write an event to the audit log",
			"event", name, "by", c.Caller.ID, "from", c.From, "err", err.Error())
	}
}

// Limits of a resetEvent.
const (
	maxEventRules = 100
	maxEventText  = 256 // bytes
)

// eventAttributes returns attributes for an event: shortened, and without values that may be secret.
func eventAttributes(attributes map[string]string) map[string]string {
	visible := maps.Clone(attributes)
	for name, value := range visible {
		if nodequery.MayBeSecret(name) {
			value = "(hidden)"
		}
		visible[name] = truncate(value, maxEventText)
	}
	return visible
}

// truncate shortens a text to at most maxBytes bytes without cutting a character, and appends "…".
func truncate(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxBytes], "") + "…"
}
