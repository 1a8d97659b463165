package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/http1"
	"github.com/headgate/headgate/server/gateway/upstream"
)

// relay sends a response to the client. It cancels the request if the upstream stops sending.
func (t *Transport) relay(
	ctx context.Context, cancel context.CancelCauseFunc, w http.ResponseWriter, response *http.Response,
) (upstream.Outcome, error) {
	outcome := upstream.Outcome{Status: response.StatusCode, Sent: true}
	stall := time.AfterFunc(t.stall, func() { cancel(errStalled) })
	defer stall.Stop()
	announced := writeHeader(w, response)
	var err error
	if outcome.Bytes, err = t.copyBody(w, response, stall); err != nil {
		return outcome, t.relayError(ctx, err)
	}
	writeTrailers(w, response.Trailer, announced)
	return outcome, nil
}

// writeHeader sends the header of a response. It returns the number of trailers that it announces.
func writeHeader(w http.ResponseWriter, response *http.Response) (announced int) {
	h := w.Header()
	http1.RemoveHopByHop(response.Header)
	for name, lines := range response.Header {
		h[name] = append(h[name], lines...)
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // prevents that the server detects a type
	}
	if len(response.Trailer) > 0 {
		names := slices.Collect(maps.Keys(response.Trailer))
		h["Trailer"] = append(h["Trailer"], strings.Join(names, ", "))
		delete(h, "Content-Length") // HTTP/1.1 has trailers only after chunks
	}
	w.WriteHeader(response.StatusCode)
	return len(response.Trailer)
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// copyBody sends the body of a response to the client. Bodies of unknown length and event streams are flushed after
// each read. The timer stall runs only while copyBody waits for the upstream.
func (t *Transport) copyBody(w http.ResponseWriter, response *http.Response, stall *time.Timer) (n int64, err error) {
	var flush func() error
	if response.ContentLength < 0 || http1.IsEventStream(response.Header.Get("Content-Type")) {
		flush = http.NewResponseController(w).Flush
		if err := flush(); err != nil { // the client may need the header before the body begins
			return 0, &writeError{err: err}
		}
	}
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	for {
		stall.Reset(t.stall)
		read, err := response.Body.Read(buffer[:])
		stall.Stop() // the time of a slow client does not count
		if read > 0 {
			sent, writeErr := w.Write(buffer[:read])
			n += int64(sent)
			if writeErr == nil && flush != nil {
				writeErr = flush()
			}
			if writeErr != nil {
				return n, &writeError{err: writeErr}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, fmt.Errorf("after %d bytes: %w", n, err)
		}
	}
}

// writeTrailers sends the trailers of a response. If not all of them were announced, it sends all as
// unannounced trailers.
func writeTrailers(w http.ResponseWriter, trailers http.Header, announced int) {
	if len(trailers) == 0 {
		return
	}
	if announced == 0 {
		// Only a chunked response can have trailers. A flush makes the response chunked.
		_ = http.NewResponseController(w).Flush() // it fails only if the client has disconnected
	}
	h := w.Header()
	for name, lines := range trailers {
		if len(trailers) != announced {
			name = http.TrailerPrefix + name
		}
		h[name] = slices.Clone(lines)
	}
}

// interimResponses relays 1xx responses until the final one arrives.
type interimResponses struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	stopped bool
}

func (i *interimResponses) send(code int, header textproto.MIMEHeader) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped || code == http.StatusContinue { // the server sends 100 itself when the body is read
		return nil
	}
	h := i.w.Header()
	earlier := make(http.Header, len(header))
	http1.RemoveHopByHop(http.Header(header))
	for name, lines := range header {
		earlier[name] = h[name]
		h[name] = append(slices.Clone(h[name]), lines...)
	}
	i.w.WriteHeader(code)
	for name, lines := range earlier { // the fields belong to this interim response only
		if lines == nil {
			delete(h, name)
		} else {
			h[name] = lines
		}
	}
	return nil
}

func (i *interimResponses) stop() {
	i.mu.Lock()
	i.stopped = true
	i.mu.Unlock()
}
