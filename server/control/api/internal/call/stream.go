package call

import (
	"io"
	"net/http"
	"time"
)

// eventTimeout limits the time that a watcher takes to receive an event.
const eventTimeout = 10 * time.Second

// A Stream is a response of server-sent events.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// StartStream begins a response of server-sent events.
func (c *Call) StartStream() *Stream {
	s := &Stream{w: c.W, control: http.NewResponseController(c.W)}
	_ = s.control.SetReadDeadline(time.Time{}) // the body was read; fails for connections without deadlines
	c.W.Header().Set("Content-Type", "text/event-stream")
	c.W.Header().Set("X-Accel-Buffering", "no") // proxies must not delay events
	c.W.WriteHeader(http.StatusOK)
	return s
}

// Write sends an event or a comment. text must end with an empty line. Write disconnects a watcher that does not
// receive it in time.
func (s *Stream) Write(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(eventTimeout)) // fails for connections without deadlines
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.control.Flush()
}
