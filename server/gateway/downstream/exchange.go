package downstream

import (
	"net/http"

	"github.com/headgate/headgate/server/gateway/internal/requestcontext"
)

// An exchange is the memory of a request and its response. Idle connections have no exchange; they get one from a pool.
type exchange struct {
	requestMemory
	response response
}

// acquireExchange takes the memory for the next request from the pool, if the connection has none.
func (c *conn) acquireExchange() {
	if c.current != nil {
		return
	}
	e, ok := c.server.exchanges.Get().(*exchange)
	if !ok {
		e = &exchange{response: response{header: make(http.Header, fewFields)}}
		e.Request = requestcontext.NewRequest("HTTP/1.1", 1, 1, fewFields)
	}
	e.response.conn = c
	c.current = e
}

// releaseExchange returns the memory to the pool after the response was sent, unless it is large.
func (c *conn) releaseExchange() {
	e := c.current
	c.current = nil
	if e == nil || e.isLarge() {
		return
	}
	e.response.conn = nil
	c.server.exchanges.Put(e)
}
