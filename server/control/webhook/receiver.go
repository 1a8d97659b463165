package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/signature"
)

// An Event is the body of a webhook request.
type Event struct {
	Event     string    `json:"event"` // EventRevision, EventAlertFired or EventAlertResolved
	Namespace string    `json:"namespace"`
	Revision  int64     `json:"revision"`
	Time      time.Time `json:"time"` // of the change, or of the alert
	// Alert is the alert, in the format of GET /v1/alerts. Nil for a revision.
	Alert json.RawMessage `json:"alert,omitempty"`
	// Delivery identifies the delivery. Retries have the same Delivery.
	Delivery string `json:"delivery"`
}

// MaxBody is the maximum size of a request's body in bytes.
const MaxBody = 64 << 10

// A Receiver is an HTTP handler that receives webhook requests. It is safe for concurrent use.
type Receiver struct {
	verifier *signature.Verifier
	handle   func(context.Context, Event)
}

var _ http.Handler = (*Receiver)(nil)

// NewReceiver returns a Receiver that calls handle for each request that is signed with the secret, once. It responds
// with status 202 after handle has returned.
func NewReceiver(secret []byte, handle func(context.Context, Event)) (*Receiver, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("webhook: the secret has %d bytes, want at least %d", len(secret), minSecret)
	}
	return &Receiver{verifier: signature.NewVerifier(secret), handle: handle}, nil
}

func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	event, err := r.read(w, request)
	if err != nil {
		err.Write(w)
		return
	}
	r.handle(request.Context(), event)
	w.WriteHeader(http.StatusAccepted)
}

func (r *Receiver) read(w http.ResponseWriter, request *http.Request) (Event, *problem.Error) {
	var event Event
	body, failure := problem.ReadBody(w, request, MaxBody)
	if failure != nil {
		return event, failure
	}
	err := r.verifier.Verify(request.Header.Get(signature.Header), body, time.Now())
	switch {
	case errors.Is(err, signature.ErrReplayed):
		return event, problem.New(http.StatusConflict, "The webhook is refused: %v.", err)
	case errors.Is(err, signature.ErrInvalid), errors.Is(err, signature.ErrTime):
		return event, problem.New(http.StatusUnauthorized, "The webhook is refused: %v.", err)
	case err == nil:
		err = json.Unmarshal(body, &event)
	}
	if err != nil {
		return event, problem.New(http.StatusBadRequest, "The webhook cannot be read: %v.", err)
	}
	return event, nil
}
