//go:build !linux

package resp

// serveReady serves the connection until it ends.
func (c *conn) serveReady() error { return c.serveBuffered() }
