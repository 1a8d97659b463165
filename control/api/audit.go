package api

import (
	"encoding/json"
	"net/http"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/internal/logins"
)

// audit answers GET /v1/audit: all changes that the caller's token covers, and who failed to log in.
func (s *Server) audit(c *call) error {
	q, limit, err := c.logQuery()
	if err != nil {
		return err
	}
	if name := c.query.Get("namespace"); name != "" && name != wildcard {
		q.Namespace = name
		if !c.who.covers(q.Namespace) {
			return fail(http.StatusForbidden, "The token %s is not for the namespace %s.", c.who.ID, q.Namespace)
		}
	}
	made, next, err := s.history(c.r.Context(), q, limit, func(change *control.Change) (revisionView, bool) {
		v := viewOf(change)
		v.From = change.From
		for i := range change.Ops {
			op := &change.Ops[i]
			if !c.mayAudit(change.Namespace, op) {
				continue
			}
			if v.Count++; v.Count <= maxListed {
				before := op.Before
				if op.Kind == control.KindEvent { // the one before it is another
					before = nil
				}
				v.Diff = append(v.Diff, difference{
					Kind: op.Kind, ID: op.ID, Action: action(before, op.Body), Before: hide(op.Kind, before), After: hide(op.Kind, op.Body),
				})
			}
		}
		return v, v.Count > 0
	})
	if err != nil {
		return err
	}
	answer := struct {
		Audit        []revisionView `json:"audit"`
		Next         string         `json:"next,omitempty"`
		FailedLogins *failedLogins  `json:"failed_logins,omitempty"`
	}{Audit: made, Next: next}
	if c.who.coversAll() {
		count, recent := s.config.Logins.Recent()
		answer.FailedLogins = &failedLogins{count, recent}
	}
	return c.answer(http.StatusOK, answer)
}

// failedLogins are those since the process started, on all listeners that take tokens.
type failedLogins struct {
	Count  int64            `json:"count"`
	Recent []logins.Failure `json:"recent"`
}

// mayAudit reports whether the caller's token covers what was changed.
func (c *call) mayAudit(namespace string, op *control.Op) bool {
	if c.who.coversAll() || c.who.covers(namespace) {
		return true
	}
	if op.Kind != control.KindToken {
		return false
	}
	for _, body := range [][]byte{op.Before, op.Body} {
		var t storedToken
		if body != nil && (json.Unmarshal(body, &t) != nil || !c.who.coversEach(t.Namespaces)) {
			return false
		}
	}
	return true
}

// hide returns a body without what is secret in it.
func hide(kind control.Kind, body []byte) json.RawMessage {
	if body == nil || kind.ForNodes() {
		return body
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return json.RawMessage(`"it cannot be read"`)
	}
	delete(fields, "hash")
	delete(fields, "secret")
	text, err := json.Marshal(fields)
	if err != nil {
		return json.RawMessage(`"it cannot be read"`)
	}
	return text
}
