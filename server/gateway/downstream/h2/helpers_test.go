package h2

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// patience is far longer than a busy machine needs.
const patience = 2 * time.Minute

// newServer returns a server without timeouts.
func newServer(t testing.TB, h http.HandlerFunc) *Server {
	s := &Server{
		Handler: h, MaxStreams: 10, MaxHeaderBytes: 16 << 10,
		Date: func() string { return "Thu, 01 Jan 1970 00:00:00 GMT" }, Logf: t.Logf,
	}
	t.Cleanup(s.Close) // after the connections
	return s
}

// states records what a connection has reported.
type states struct {
	mu     sync.Mutex
	busy   bool
	denied bool
	closed bool
}

func (s *states) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = true
	return !s.closed
}

func (s *states) Idle(denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy, s.denied = false, denied
}

func (s *states) get() (busy, denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy, s.denied
}

// A client speaks HTTP/2 with a connection frame by frame.
type client struct {
	t      testing.TB
	nc     net.Conn
	framer *http2.Framer
	block  bytes.Buffer
	enc    *hpack.Encoder
	conn   *Conn
	states *states
	served chan struct{} // closed when Serve has returned
	skip   map[http2.FrameType]bool
}

func newClient(t testing.TB, nc net.Conn) *client {
	c := &client{t: t, nc: nc, states: new(states), served: make(chan struct{})}
	c.framer = http2.NewFramer(nc, nc)
	c.framer.AllowIllegalWrites = true
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.enc = hpack.NewEncoder(&c.block)
	c.skip = map[http2.FrameType]bool{http2.FrameWindowUpdate: true}
	return c
}

// dial connects to a server that serves a pipe, and sends nothing.
func dial(t testing.TB, s *Server) *client {
	t.Helper()
	near, far := net.Pipe()
	c := newClient(t, near)
	c.conn = s.NewConn(Link{Conn: far, Remote: "192.0.2.1:1234", States: c.states})
	go func() {
		defer close(c.served)
		c.conn.Serve()
	}()
	t.Cleanup(func() {
		_ = near.Close()
		<-c.served
	})
	return c
}

// connect connects to a server, and exchanges the settings.
func connect(t testing.TB, s *Server, settings ...http2.Setting) *client {
	t.Helper()
	c := dial(t, s)
	c.greet(settings...)
	return c
}

// greet exchanges the settings.
func (c *client) greet(settings ...http2.Setting) {
	c.t.Helper()
	c.write([]byte(http2.ClientPreface))
	c.must(c.framer.WriteSettings(settings...))
	if f, ok := c.read().(*http2.SettingsFrame); !ok || f.IsAck() {
		c.t.Fatalf("got %v, want SETTINGS", f)
	}
	if f, ok := c.read().(*http2.SettingsFrame); !ok || !f.IsAck() {
		c.t.Fatalf("got %v, want an acknowledgement", f)
	}
	c.must(c.framer.WriteSettingsAck())
}

func (c *client) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) write(b []byte) {
	c.t.Helper()
	_, err := c.nc.Write(b)
	c.must(err)
}

// raw writes a frame of any content.
func (c *client) raw(kind http2.FrameType, flags http2.Flags, stream uint32, payload string) {
	c.t.Helper()
	c.write(append(appendFrameHeader(nil, kind, flags, stream, len(payload)), payload...))
}

// encode returns a header block of names and values by turns.
func (c *client) encode(fields ...string) []byte {
	c.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		c.must(c.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return bytes.Clone(c.block.Bytes())
}

// getFields are those of a simple request, and others.
func getFields(others ...string) []string {
	return append([]string{":method", "GET", ":scheme", "http", ":authority", "a.example", ":path", "/x"}, others...)
}

func postFields(others ...string) []string {
	f := getFields(others...)
	f[1] = "POST"
	return f
}

// request sends a header block, which may end the stream, and may be complete.
func (c *client) request(stream uint32, end, complete bool, fields ...string) error {
	return c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: c.encode(fields...), EndStream: end, EndHeaders: complete,
	})
}

// headers sends a complete header block.
func (c *client) headers(stream uint32, end bool, fields ...string) {
	c.t.Helper()
	c.must(c.request(stream, end, true, fields...))
}

func (c *client) data(stream uint32, end bool, data string) {
	c.t.Helper()
	c.must(c.framer.WriteData(stream, end, []byte(data)))
}

// tryRead reads the next frame that is not skipped.
func (c *client) tryRead() (http2.Frame, error) {
	for {
		f, err := c.framer.ReadFrame()
		if err != nil || !c.skip[f.Header().Type] {
			return f, err
		}
	}
}

func (c *client) read() http2.Frame {
	c.t.Helper()
	f, err := c.tryRead()
	c.must(err)
	return f
}

// reset reads a RST_STREAM.
func (c *client) reset(stream uint32, want http2.ErrCode) {
	c.t.Helper()
	f, ok := c.read().(*http2.RSTStreamFrame)
	if !ok || f.StreamID != stream || f.ErrCode != want {
		c.t.Fatalf("got %v, want stream %d to be reset with %v", f, stream, want)
	}
}

// goAway reads a GOAWAY, and then the end of the connection.
func (c *client) goAway(want http2.ErrCode) {
	c.t.Helper()
	for {
		f, err := c.tryRead()
		c.must(err)
		g, ok := f.(*http2.GoAwayFrame)
		if !ok {
			continue
		}
		if g.ErrCode != want {
			c.t.Fatalf("got GOAWAY with %v, want %v", g.ErrCode, want)
		}
		break
	}
	c.ends()
}

// ends waits for the end of the connection.
func (c *client) ends() {
	c.t.Helper()
	if f, err := c.tryRead(); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		c.t.Fatalf("got %v, %v, want the end of the connection", f, err)
	}
}

// alive checks that the connection still works.
func (c *client) alive() {
	c.t.Helper()
	data := [8]byte{1, 2, 3}
	c.must(c.framer.WritePing(false, data))
	if f, ok := c.read().(*http2.PingFrame); !ok || !f.IsAck() || f.Data != data {
		c.t.Fatalf("got %v, want the ping's acknowledgement", f)
	}
}

// A clientResponse is a response that the client has read.
type clientResponse struct {
	status  string
	header  map[string]string
	body    string
	trailer map[string]string
}

// receive reads the response on a stream, until it ends.
func (c *client) receive(stream uint32) clientResponse {
	c.t.Helper()
	var a clientResponse
	for {
		switch f := c.read().(type) {
		case *http2.MetaHeadersFrame:
			fields := make(map[string]string)
			for _, one := range f.Fields {
				fields[one.Name] = one.Value
			}
			if a.header == nil {
				a.status, a.header = fields[":status"], fields
			} else {
				a.trailer = fields
			}
			if f.StreamID == stream && f.StreamEnded() {
				return a
			}
		case *http2.DataFrame:
			a.body += string(f.Data())
			if f.StreamID == stream && f.StreamEnded() {
				return a
			}
		default:
			c.t.Fatalf("got %v, want a response", f)
		}
	}
}

// ok receives a response, and checks that its status is 200.
func (c *client) ok(stream uint32) clientResponse {
	c.t.Helper()
	a := c.receive(stream)
	if a.status != strconv.Itoa(http.StatusOK) {
		c.t.Fatalf("got status %s, want 200", a.status)
	}
	return a
}

// echo responds with the body.
func echo(w http.ResponseWriter, r *http.Request) {
	if b, err := io.ReadAll(r.Body); err == nil {
		_, _ = w.Write(b)
	}
}
