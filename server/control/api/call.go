package api

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

// A call is a request to the API.
type call struct {
	w         http.ResponseWriter
	r         *http.Request
	route     *Route
	args      []string // the values in the path
	query     url.Values
	caller    *token.Principal // nil if the route needs no token
	from      string           // the caller's address
	namespace string

	maxBody      int64
	large        *largeBodies
	releaseLarge func() // nil unless the call has a large body
}

// end releases what the call holds.
func (c *call) end() {
	if c.releaseLarge != nil {
		c.releaseLarge()
	}
}

// respond sends a value as JSON.
func (c *call) respond(status int, v any) error {
	var text bytes.Buffer
	if err := problem.Encode(&text, v); err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(text.Len()))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(text.Bytes()) // fails only if the caller has disconnected
	return nil
}

// A revisionOnly is the response to a call that leaves no object.
type revisionOnly struct {
	Revision int64 `json:"revision"`
}

// setDeadlines extends the time to read the body and to write the response. It does nothing for connections without
// deadlines.
func (c *call) setDeadlines(read, write time.Duration) {
	rc := http.NewResponseController(c.w)
	now := time.Now() // connections use the system's clock
	_ = rc.SetReadDeadline(now.Add(read))
	_ = rc.SetWriteDeadline(now.Add(write))
}

// change returns the log entry of a change that the call makes, without operations.
func (c *call) change(namespace, action string) *control.Change {
	return &control.Change{
		Namespace: namespace, Actor: c.caller.ID, From: c.from, Action: action, Note: c.query.Get("note"), Base: control.Any,
	}
}
