package downstream

import (
	"errors"
	"os"
	"time"
)

// wantWatch has the connection watched from now on, or when the body of the request has been read.
func (c *conn) wantWatch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = c.serving // who asks later has kept what he should not, and is told at the end of another request
	c.watch()
}

// watch begins to watch, if somebody wants to know and it is possible: what comes now is not part of the request. c.mu is held.
func (c *conn) watch() {
	if !c.wanted || c.watching != nil || c.aborted || c.lost != nil || c.body.left.Load() > 0 || c.in.full() {
		return
	}
	c.disarm()
	done := make(chan struct{})
	c.watching = done
	go c.lookOut(done, c.context, c.in.room())
}

// lookOut reads what comes before the answer. Mostly that is the end.
func (c *conn) lookOut(done chan struct{}, ctx *requestContext, room []byte) {
	defer close(done)
	n, err := c.rwc.Read(room)
	c.mu.Lock()
	c.in.w += n
	gone := err != nil && n == 0 && !(c.aborted && errors.Is(err, os.ErrDeadlineExceeded))
	if gone {
		c.lost = err
	}
	c.mu.Unlock()
	if gone {
		ctx.cancel()
	}
}

// unwatch ends the watch.
func (c *conn) unwatch() {
	c.mu.Lock()
	c.wanted, c.serving = false, false
	done := c.watching
	if done == nil {
		c.mu.Unlock()
		return
	}
	c.aborted = true
	_ = c.rwc.SetReadDeadline(longAgo)
	c.mu.Unlock()
	<-done
	c.mu.Lock()
	c.aborted, c.watching = false, nil
	c.mu.Unlock()
	c.alarm = 0
	_ = c.rwc.SetReadDeadline(time.Time{})
}

// longAgo, as a deadline, ends reads at once.
var longAgo = time.Unix(1, 0)
