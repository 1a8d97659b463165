package downstream

import "time"

// defaultQuietTime is how long a connection waits for its next request before its goroutine ends.
const defaultQuietTime = 250 * time.Millisecond

// serveQuiet waits for the next request of a connection that has been idle for Server.quietTime, and then serves the
// connection. It runs in its own goroutine, because the stack of a goroutine that has served a request stays large.
func (c *conn) serveQuiet() {
	ended := true
	defer func() { c.end(recover(), ended) }()
	limit := c.server.IdleTimeout
	if limit > 0 {
		limit -= c.server.quietTime
	}
	if c.fill(limit) == nil {
		ended = c.serveRequests()
	}
}
