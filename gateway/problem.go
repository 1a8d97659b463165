package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/identity"
)

// A problem is an answer of the gateway's own, in the form of RFC 9457. It tells nothing about what is behind the gateway.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	ID     string `json:"requestId,omitempty"`
}

const problemType = "application/problem+json"

// statusClientGone is for the log only: there is nobody to send it to.
const statusClientGone = 499

// answer answers with a problem, by a writer of the limiter's or by ex itself.
func (ex *exchange) answer(w http.ResponseWriter, status int, detail string) {
	if ex.id == nil {
		ex.id = newID()
	}
	p := problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, ID: ex.id[0]}
	text, err := json.Marshal(p)
	if err != nil { // strings and numbers always can be
		panic(err)
	}
	h := w.Header()
	h["Content-Type"] = []string{problemType}
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	h["Cache-Control"] = []string{"no-store"}
	switch status {
	case http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge:
		if !ex.http2 { // which can end one request alone
			h["Connection"] = closeValue // what else this client sends is not worth reading
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // if the client is gone, nobody is there to hear of it
}

// refuse answers a request that is malformed.
func (ex *exchange) refuse(err error) {
	detail := "The request is malformed."
	var bad *identity.RequestError
	if errors.As(err, &bad) {
		detail = bad.Error()
	}
	ex.fault = err
	ex.answer(ex, http.StatusBadRequest, detail)
}

// setRetryAfter tells the client when to come back: in whole seconds, rounded up.
func setRetryAfter(h http.Header, d time.Duration) {
	h["Retry-After"] = []string{strconv.FormatInt(int64((max(d, 1)+time.Second-1)/time.Second), 10)}
}
