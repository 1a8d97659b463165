package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/gateway/internal/requestid"
)

// A problem is a response of the gateway itself (RFC 9457). It reveals nothing about the upstreams.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	ID     string `json:"requestId,omitempty"`
}

const problemType = "application/problem+json"

// respond sends a problem to w, which is ex or a ResponseWriter of the limiter that wraps ex.
func (ex *exchange) respond(w http.ResponseWriter, status int, detail string) {
	if ex.request.id == nil {
		ex.request.id = requestid.New()
	}
	p := problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, ID: ex.request.id[0],
	}
	text, err := json.Marshal(p)
	if err != nil { // impossible for strings and numbers
		panic(err)
	}
	h := w.Header()
	h["Content-Type"] = []string{problemType}
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	h["Cache-Control"] = []string{"no-store"}
	switch status {
	case http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge:
		if !ex.http2 { // the rest of the request is not read; HTTP/2 ends only the stream
			h["Connection"] = closeValue
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the client has disconnected
}

// refuse responds to a malformed request.
func (ex *exchange) refuse(err error) {
	detail := "The request is malformed."
	var bad *identity.RequestError
	if errors.As(err, &bad) {
		detail = bad.Error()
	}
	ex.forward.fault = err
	ex.respond(ex, http.StatusBadRequest, detail)
}

// tooLarge returns the detail for a part of a request that exceeds its limit.
func tooLarge(part string, limit int64) string {
	return "The " + part + " may have at most " + strconv.FormatInt(limit, 10) + " bytes."
}

// setRetryAfter sets Retry-After, in whole seconds, rounded up.
func setRetryAfter(h http.Header, d time.Duration) {
	h["Retry-After"] = []string{strconv.FormatInt(int64((max(d, 1)+time.Second-1)/time.Second), 10)}
}
