package h2

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// floods are attacks that cost the server more than the client. Each round must be refused before there are many.
var floods = map[string]func(c *client, round int) error{
	"resets": func(c *client, round int) error {
		id := uint32(2*round + 1)
		if err := c.request(id, true, true, getFields()...); err != nil {
			return err
		}
		return c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
	},
	"malformed requests": func(c *client, round int) error {
		return c.request(uint32(2*round+1), true, true, "x-a", "b")
	},
	"resets by wrong windows": func(c *client, round int) error {
		id := uint32(2*round + 1)
		if err := c.request(id, true, true, getFields()...); err != nil {
			return err
		}
		return c.framer.WriteWindowUpdate(id, 0)
	},
	"pings":      func(c *client, _ int) error { return c.framer.WritePing(false, [8]byte{1}) },
	"acks":       func(c *client, _ int) error { return c.framer.WritePing(true, [8]byte{1}) },
	"settings":   func(c *client, _ int) error { return c.framer.WriteSettings() },
	"priorities": func(c *client, _ int) error { return c.framer.WritePriority(9, http2.PriorityParam{StreamDep: 3}) },
	"windows":    func(c *client, _ int) error { return c.framer.WriteWindowUpdate(0, 1) },
	"unknown":    func(c *client, _ int) error { return c.framer.WriteRawFrame(99, 0, 0, nil) },
	"empty data": func(c *client, round int) error {
		if round == 0 {
			return c.request(1, false, true, postFields()...)
		}
		return c.framer.WriteData(1, false, nil)
	},
	"padding": func(c *client, round int) error {
		if round == 0 {
			return c.request(1, false, true, postFields()...)
		}
		return c.framer.WriteDataPadded(1, false, nil, make([]byte, 200))
	},
	"data after the end": func(c *client, round int) error {
		if round == 0 {
			return c.request(1, true, true, getFields()...)
		}
		return c.framer.WriteData(1, false, []byte("x"))
	},
	"continuations": func(c *client, round int) error {
		if round == 0 {
			return c.request(1, true, false, getFields()...)
		}
		return c.framer.WriteContinuation(1, false, c.encode("x-a", "b"))
	},
	"empty continuations": func(c *client, round int) error {
		if round == 0 {
			return c.request(1, true, false, getFields()...)
		}
		return c.framer.WriteContinuation(1, false, nil)
	},
	"large continuations": func(c *client, round int) error {
		if round == 0 {
			return c.request(1, true, false, getFields()...)
		}
		return c.framer.WriteContinuation(1, false, []byte(strings.Repeat("\x82", 10_000)))
	},
}

// A client that only costs work is disconnected with ENHANCE_YOUR_CALM, and never has more handlers than streams are
// allowed.
func TestFloodsEndTheConnection(t *testing.T) {
	for name, round := range floods {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var running, most atomic.Int64
				s := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
					most.Store(max(most.Load(), running.Add(1)))
					defer running.Add(-1)
					<-r.Context().Done()
					time.Sleep(time.Millisecond) // longer than the client needs for its next requests
				})
				c := connect(t, s)
				var code http2.ErrCode
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					for {
						f, err := c.framer.ReadFrame()
						if err != nil {
							return
						}
						if g, ok := f.(*http2.GoAwayFrame); ok {
							code = g.ErrCode
						}
					}
				}()
				n := 0
				for ; n < 100_000; n++ {
					if round(c, n) != nil {
						break
					}
				}
				<-ended
				if code != http2.ErrCodeEnhanceYourCalm || n > 2*budgetMax {
					t.Errorf("got %v after %d rounds, want ENHANCE_YOUR_CALM after at most %d", code, n, 2*budgetMax)
				}
				if got := most.Load(); got > int64(s.MaxStreams) {
					t.Errorf("got %d handlers at once, want at most %d", got, s.MaxStreams)
				}
			})
		})
	}
}

// A client that does not read while it causes responses is disconnected, too.
func TestUnreadControlFramesAreBounded(t *testing.T) {
	c := connect(t, newServer(t, echo))
	n := 0
	for ; n < 1_000_000; n++ {
		if c.framer.WritePing(false, [8]byte{1}) != nil {
			break
		}
	}
	if n > 2*budgetMax {
		t.Errorf("got %d pings through, want at most %d", n, 2*budgetMax)
	}
}

// A client with a purpose may send many frames.
func TestUsefulClientsAreNotTakenForFloods(t *testing.T) {
	c := connect(t, newServer(t, echo))
	c.skip[http2.FramePing] = true
	for i := range uint32(3000) {
		id := 2*i + 1
		c.headers(id, false, postFields()...)
		c.data(id, true, "hello")
		c.must(c.framer.WritePing(false, [8]byte{1}))
		c.must(c.framer.WriteWindowUpdate(0, 5))
		c.must(c.framer.WriteWindowUpdate(id, 5))
		if a := c.ok(id); a.body != "hello" {
			t.Fatalf("got %q, want hello", a.body)
		}
	}
}

// A small header block can stand for a huge header. The server counts it, but does not keep it.
func TestCompressedHugeHeadersAreNotKept(t *testing.T) {
	s := newServer(t, report)
	c := connect(t, s)
	c.headers(1, true, getFields("x-a", strings.Repeat("x", 3000))...)
	c.ok(1)
	c.headers(3, true, getFields()...)
	c.ok(3)
	block := c.encode(getFields()...)
	field := c.encode("x-a", strings.Repeat("x", 3000)) // a reference to the table
	if len(field) > 2 {
		t.Fatalf("the field has %d bytes, want a reference", len(field))
	}
	for len(block) < 16_000 {
		block = append(block, field...)
	}
	c.raw(http2.FrameHeaders, http2.FlagHeadersEndStream|http2.FlagHeadersEndHeaders, 5, string(block))
	if a := c.receive(5); a.status != "431" {
		t.Errorf("got status %s, want 431", a.status)
	}
	_ = c.nc.Close()
	<-c.served
	if n := cap(c.conn.reader.block.fields); n > 200 {
		t.Errorf("%d fields were kept, want at most 200", n)
	}
}

func TestStreamsOverTheLimitAreRefused(t *testing.T) {
	release := make(chan struct{})
	s := newServer(t, func(http.ResponseWriter, *http.Request) { <-release })
	s.MaxStreams = 2
	c := connect(t, s)
	for id := uint32(1); id <= 3; id += 2 {
		c.headers(id, true, getFields()...)
	}
	c.headers(5, true, getFields()...)
	c.reset(5, http2.ErrCodeRefusedStream)
	// Handlers of streams that were reset count until they end.
	c.must(c.framer.WriteRSTStream(1, http2.ErrCodeCancel))
	c.headers(7, true, getFields()...)
	c.reset(7, http2.ErrCodeRefusedStream)
	close(release)
	c.ok(3)
}
