//go:build !linux

package resp

// serveReady serves the connection.
func (c *conn) serveReady() error { return c.serveBuffered() }
