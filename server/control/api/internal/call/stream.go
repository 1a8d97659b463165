package call

import (
	"io"
	"net/http"
	"time"
)

// eventTimeout is the time that a watcher has to read an event.
const eventTimeout = 10 * time.Second

// A Stream is a response of server-sent events.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// StartStream begins a response of server-sent events.
func (c *Call) StartStream() *Stream {
	s := &Stream{w: c.W, control: http.NewResponseController(c.W)}
	_ = s.control.SetReadDeadline(time.Time{}) // nothing more is read; fails for connections without deadlines
	c.W.Header().Set("Content-Type", "text/event-stream")
	c.W.Header().Set("X-Accel-Buffering", "no") // proxies must not delay events
	c.W.WriteHeader(http.StatusOK)
	return s
}

// Write sends the text of an event or a comment, with the empty line after it. A watcher that does not read in time is
// disconnected.
func (s *Stream) Write(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(eventTimeout)) // fails for connections without deadlines
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.control.Flush()
}
