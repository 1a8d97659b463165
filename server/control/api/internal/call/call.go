// Package call reads the parameters and the body of an HTTP call to the rules service, and sends the response.
package call

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/token"
)

// A Call is a request to the API and its response. It is not safe for concurrent use.
type Call struct {
	W         http.ResponseWriter
	R         *http.Request
	Args      []string // the values in the path
	Query     url.Values
	Caller    *token.Principal // nil if the route needs no token
	From      string           // the caller's network address
	Namespace string
	// Parameters are the query parameters of the route besides namespace. "*" stands for any parameter.
	Parameters []string

	bodies       *Bodies
	releaseLarge func() // nil unless the call has a large body
}

// New returns a Call in the default namespace. End must be called after the response.
func New(w http.ResponseWriter, r *http.Request, bodies *Bodies) *Call {
	return &Call{W: w, R: r, Namespace: control.DefaultNamespace, bodies: bodies}
}

// End releases the call's share of the memory for large bodies.
func (c *Call) End() {
	if c.releaseLarge != nil {
		c.releaseLarge()
	}
}

// Respond sends a value as JSON.
func (c *Call) Respond(status int, v any) error {
	var text bytes.Buffer
	if err := problem.Encode(&text, v); err != nil {
		return err
	}
	c.W.Header().Set("Content-Type", "application/json")
	c.W.Header().Set("Content-Length", strconv.Itoa(text.Len()))
	c.W.WriteHeader(status)
	_, _ = c.W.Write(text.Bytes()) // fails only if the caller has disconnected
	return nil
}

// A RevisionOnly is the response to a call that leaves no object to return, such as a deletion.
type RevisionOnly struct {
	Revision int64 `json:"revision"`
}

// SetDeadlines extends the time to read the body and to write the response. It does nothing for connections without
// deadlines.
func (c *Call) SetDeadlines(read, write time.Duration) {
	rc := http.NewResponseController(c.W)
	now := time.Now() // deadlines of connections are by the system's clock
	_ = rc.SetReadDeadline(now.Add(read))
	_ = rc.SetWriteDeadline(now.Add(write))
}

// Change returns a new change by the call's caller, without operations.
func (c *Call) Change(namespace, action string) *control.Change {
	return &control.Change{
		Namespace: namespace, Actor: c.Caller.ID, From: c.From, Action: action, Note: c.Query.Get("note"),
		Base: control.AnyRevision,
	}
}
