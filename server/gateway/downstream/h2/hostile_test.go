package h2

import (
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

func TestUnreadResponsesWithoutBodyAreBounded(t *testing.T) {
	served := make(chan struct{}, 1<<16)
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X-Large"] = []string{string(make([]byte, 4<<10))}
		w.WriteHeader(http.StatusNoContent)
		served <- struct{}{}
	})
	s.MaxStreams = 100
	c := connect(t, s)
	for i := range 500 { // more are refused
		c.headers(uint32(2*i+1), true, getFields()...)
	}
	for range s.MaxStreams {
		<-served
	}
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	// A handler may add its header to a queue that is almost full.
	if q := c.conn.sending.queued; q != nil && len(q.frames) > 2*maxQueued {
		t.Errorf("%d bytes are queued for a client that reads nothing, want at most %d", len(q.frames), 2*maxQueued)
	}
}

// untilCanceled blocks a handler until its request is canceled or the test lets it end.
func untilCanceled(release chan struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
}

func TestFramesAfterTheLastStreamAreIgnored(t *testing.T) {
	release := make(chan struct{})
	c := connect(t, newServer(t, untilCanceled(release)))
	c.headers(1, true, getFields()...)
	c.conn.Drain()
	c.read() // GOAWAY
	c.read() // PING
	c.must(c.framer.WritePing(true, drainData))
	c.read() // GOAWAY with the last stream
	c.headers(3, false, postFields()...)
	c.data(3, false, "on its way")
	c.must(c.framer.WriteWindowUpdate(3, 10_000))
	c.must(c.framer.WriteRSTStream(3, http2.ErrCodeCancel))
	c.alive()
	close(release)
	c.ok(1)
}

func TestSettingsPrecedeDrain(t *testing.T) {
	near, far := net.Pipe()
	c := newClient(t, near)
	conn := newServer(t, echo).NewConn(Link{Conn: far, Remote: "192.0.2.1:1234", States: c.states})
	conn.Drain()
	go func() {
		defer close(c.served)
		conn.Serve()
	}()
	t.Cleanup(func() {
		_ = near.Close()
		<-c.served
	})
	if f, ok := c.read().(*http2.SettingsFrame); !ok {
		t.Errorf("got %v first, want SETTINGS", f)
	}
}

func TestErrorsEndTheConnectionWhileHandlersRun(t *testing.T) {
	release := make(chan struct{})
	c := connect(t, newServer(t, func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release) }) // before the connection's
	c.headers(1, true, getFields()...)
	// The ping's acknowledgement is being written when the error occurs, because nothing is read.
	c.must(c.framer.WritePing(false, [8]byte{}))
	c.raw(http2.FramePushPromise, 0, 1, "")
	c.must(c.nc.SetReadDeadline(time.Now().Add(patience)))
	c.goAway(http2.ErrCodeProtocol)
}

func TestDataMayBeSlowAfterHalfAFrameHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, echo)
		s.HeaderTimeout = time.Second
		c := connect(t, s)
		c.headers(1, false, postFields()...)
		frame := appendData(nil, 1, []byte("slow"), true)
		c.write(frame[:5])
		synctest.Wait()
		c.write(frame[5:frameHeaderSize])
		time.Sleep(time.Minute)
		c.write(frame[frameHeaderSize:])
		if got := c.ok(1).body; got != "slow" {
			t.Errorf("got %q, want the body", got)
		}
	})
}
