package h2

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// ended waits for the end of the connection, and returns when that was.
func ended(c *client, began time.Time) time.Duration {
	for {
		if _, err := c.framer.ReadFrame(); err != nil {
			<-c.served
			return time.Since(began).Round(time.Millisecond)
		}
	}
}

func TestSlowClientsEndTheConnection(t *testing.T) {
	for name, tt := range map[string]struct {
		greet bool
		send  func(c *client)
		want  time.Duration
	}{
		"no preface": {want: 10 * time.Second},
		"half a preface": {send: func(c *client) {
			c.write([]byte(http2.ClientPreface[:10]))
		}, want: 10 * time.Second},
		"no settings":  {send: func(c *client) { c.write([]byte(http2.ClientPreface)) }, want: 10 * time.Second},
		"half a frame": {greet: true, send: func(c *client) { c.write([]byte{0, 0, 8}) }, want: 10 * time.Second},
		"half a header block": {greet: true, send: func(c *client) {
			c.raw(http2.FrameHeaders, 0, 1, "\x82")
		}, want: 10 * time.Second},
		"a header block that trickles": {greet: true, want: 10 * time.Second, send: func(c *client) {
			c.raw(http2.FrameHeaders, 0, 1, "\x82")
			go func() {
				for range 60 {
					time.Sleep(time.Second)
					if c.framer.WriteContinuation(1, false, []byte{0x86}) != nil {
						return
					}
				}
			}()
		}},
		"no request": {greet: true, want: time.Minute},
		"only pings": {greet: true, want: time.Minute, send: func(c *client) {
			go func() {
				for c.framer.WritePing(false, [8]byte{1}) == nil {
					time.Sleep(7 * time.Second)
				}
			}()
		}},
		"a request, and then none": {greet: true, want: time.Minute, send: func(c *client) {
			c.headers(1, true, getFields()...)
		}},
		// Silence counts from when it is noticed, here after 10 s.
		"no response to a ping": {greet: true, want: 85 * time.Second, send: func(c *client) {
			c.headers(1, true, getFields("x-held", "1")...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
					if r.Header.Get("X-Held") != "" {
						<-r.Context().Done()
					}
				})
				s.HeaderTimeout, s.IdleTimeout, s.PingTimeout = 10*time.Second, time.Minute, 15*time.Second
				var c *client
				if tt.greet {
					c = connect(t, s)
				} else {
					c = dial(t, s)
				}
				began := time.Now()
				if tt.send != nil {
					tt.send(c)
				}
				if got := ended(c, began); got != tt.want {
					t.Errorf("it ended after %v, want %v", got, tt.want)
				}
				time.Sleep(10 * time.Second) // until the client has noticed
			})
		})
	}
}

// A client that responds to pings may wait for a response as long as it takes.
func TestLongStreamsAreNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Hour) })
		s.HeaderTimeout, s.IdleTimeout, s.PingTimeout = 10*time.Second, time.Minute, 15*time.Second
		c := connect(t, s)
		c.headers(1, true, getFields()...)
		pings := 0
		for {
			switch f := c.read().(type) {
			case *http2.PingFrame:
				pings++
				c.must(c.framer.WritePing(true, f.Data))
			case *http2.MetaHeadersFrame:
				if pings < 40 || pings > 60 {
					t.Errorf("got %d pings in an hour, want about one a minute", pings)
				}
				return
			}
		}
	})
}

func TestDrainServesRequestsOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := connect(t, newServer(t, func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Held") != "" {
				<-release
			}
		}))
		c.headers(1, true, getFields("x-held", "1")...)
		synctest.Wait()
		c.conn.Drain()
		c.conn.Drain()
		if f, ok := c.read().(*http2.GoAwayFrame); !ok || f.LastStreamID != maxStreamID || f.ErrCode != http2.ErrCodeNo {
			t.Fatalf("got %v, want GOAWAY that allows all streams", f)
		}
		ping, ok := c.read().(*http2.PingFrame)
		if !ok || ping.IsAck() {
			t.Fatalf("got %v, want PING", ping)
		}
		c.headers(3, true, getFields()...) // was on its way
		c.ok(3)
		c.must(c.framer.WritePing(true, ping.Data))
		if f, ok := c.read().(*http2.GoAwayFrame); !ok || f.LastStreamID != 3 || f.ErrCode != http2.ErrCodeNo {
			t.Fatalf("got %v, want GOAWAY after stream 3", f)
		}
		c.headers(5, true, getFields()...) // is ignored
		synctest.Wait()
		close(release)
		c.ok(1)
		c.ends()
	})
}

// A client that does not acknowledge the ping is not waited for.
func TestDrainEndsIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, acknowledges := range []bool{true, false} {
			c := connect(t, newServer(t, echo))
			c.headers(1, true, getFields()...)
			c.ok(1)
			began := time.Now()
			c.conn.Drain()
			c.read() // GOAWAY
			ping, ok := c.read().(*http2.PingFrame)
			if !ok {
				t.Fatalf("got %v, want PING", ping)
			}
			want := drainTime
			if acknowledges {
				want = 0
				c.must(c.framer.WritePing(true, ping.Data))
			}
			c.goAway(http2.ErrCodeNo)
			if got := time.Since(began); got != want {
				t.Errorf("it took %v, want %v", got, want)
			}
		}
	})
}

func TestGoAwayOfTheClientEndsTheConnection(t *testing.T) {
	c := connect(t, newServer(t, echo))
	c.headers(1, false, postFields()...)
	c.must(c.framer.WriteGoAway(0, http2.ErrCodeNo, nil))
	c.read() // GOAWAY
	c.data(1, true, "hello")
	if a := c.ok(1); a.body != "hello" {
		t.Errorf("got %q, want hello", a.body)
	}
	c.ends()
}

// A response with Connection: close ends the connection after the current streams.
func TestConnectionCloseDrains(t *testing.T) {
	c := connect(t, newServer(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }))
	c.headers(1, true, getFields()...)
	var seen []http2.FrameType
	for len(seen) < 3 {
		seen = append(seen, c.read().Header().Type)
	}
	c.must(c.framer.WritePing(true, drainData))
	c.goAway(http2.ErrCodeNo)
}

func TestStatesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := connect(t, newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			<-release
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		c.headers(1, true, getFields()...)
		synctest.Wait()
		if busy, _ := c.states.get(); !busy {
			t.Error("the connection is idle, want it busy")
		}
		close(release)
		c.receive(1)
		synctest.Wait()
		if busy, denied := c.states.get(); busy || !denied {
			t.Errorf("busy %t, denied %t, want it idle and denied", busy, denied)
		}
		c.states.mu.Lock()
		c.states.closed = true
		c.states.mu.Unlock()
		c.headers(3, true, getFields()...)
		if f, ok := c.read().(*http2.GoAwayFrame); !ok || f.LastStreamID != 1 {
			t.Errorf("got %v, want GOAWAY after stream 1", f)
		}
	})
}
