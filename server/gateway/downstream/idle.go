package downstream

import "time"

// defaultHandOverAfter is the default of Server.handOverAfter.
const defaultHandOverAfter = 250 * time.Millisecond

// serveIdle waits for the next request of a connection that has been idle for Server.handOverAfter, and then serves the
// connection. It runs in a new goroutine, to save memory: the goroutine that served the last request has a large stack.
func (c *conn) serveIdle() {
	ended := true // false if serveRequests hands the connection over to another goroutine
	defer func() { c.end(recover(), ended) }()
	timeout := c.server.IdleTimeout // 0 means none; otherwise it is longer than handOverAfter, as conn.next has checked
	if timeout > 0 {
		timeout -= c.server.handOverAfter
	}
	if c.fill(c.server.now(), timeout) == nil {
		ended = c.serveRequests()
	}
}
