package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStreamsAreFlushedPieceByPiece(t *testing.T) {
	for name, tt := range map[string]struct{ head, begin, end, close string }{
		"events in chunks":          {"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n", "9\r\n", "\r\n", "0\r\n\r\n"},
		"anything in chunks":        {"Content-Type: application/grpc-web\r\nTransfer-Encoding: chunked\r\n", "9\r\n", "\r\n", "0\r\n\r\n"},
		"until the connection ends": {"", "", "", ""},
		"events of known length":    {"Content-Type: text/event-stream\r\nContent-Length: 27\r\n", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			u := script(t, func(c *peer, _ int) {
				c.request()
				c.say("HTTP/1.1 200 OK\r\n" + tt.head + "\r\n")
				for i := range 3 {
					<-next
					c.say(fmt.Sprintf("%sdata: %d\n\n%s", tt.begin, i, tt.end))
				}
				<-next
				c.say(tt.close)
			})
			f := newFront(t, newPool(t, Config{Address: u.address}), nil)
			c := dialFront(t, f)
			c.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			res := c.response("GET") // comes before there is any data
			for i := range 3 {
				next <- struct{}{}
				got := make([]byte, 9)
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != fmt.Sprintf("data: %d\n\n", i) {
					t.Fatalf("piece %d: got %q, %v", i, got, err)
				}
			}
			next <- struct{}{}
			if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
				t.Errorf("at the end: got %q, %v", rest, err)
			}
			if r := f.result(t); r.err != nil || r.Bytes != 27 {
				t.Errorf("outcome: %+v", r)
			}
		})
	}
}

func TestBothSidesCanSendAtOnce(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		both := http.NewResponseController(w)
		_ = both.EnableFullDuplex()
		w.WriteHeader(200)
		_ = both.Flush()
		in := bufio.NewReader(r.Body)
		for {
			line, err := in.ReadString('\n')
			_, _ = io.WriteString(w, strings.ToUpper(line))
			_ = both.Flush()
			if err != nil {
				return
			}
		}
	}
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(echo))
			defer s.Close()
			p := newPool(t, Config{Address: s.Listener.Addr().String()})
			f := newFront(t, p, nil)
			client := f.Client()
			if version == "HTTP/2.0" {
				client.Transport.(*http.Transport).Protocols = new(http.Protocols)
				client.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
			}
			body, say := io.Pipe()
			ctx, cancel := context.WithTimeout(context.Background(), patient)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, "POST", f.URL, body)
			if err != nil {
				t.Fatal(err)
			}
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.Proto != version {
				t.Fatalf("spoke %s, want %s", res.Proto, version)
			}
			in := bufio.NewReader(res.Body)
			for i := range 5 {
				fmt.Fprintf(say, "line %d\n", i)
				if got, err := in.ReadString('\n'); got != fmt.Sprintf("LINE %d\n", i) {
					t.Fatalf("got %q, %v", got, err)
				}
			}
			_ = say.Close()
			if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
				t.Errorf("at the end: got %q, %v", rest, err)
			}
			if r := f.result(t); r.err != nil {
				t.Errorf("outcome: %+v", r)
			}
			if s := settled(t, p); s.Idle != 1 {
				t.Errorf("got %+v, want the connection kept", s)
			}
		})
	}
}

func TestHeaderTimeoutDoesNotApplyToBody(t *testing.T) {
	t.Parallel()
	const timeout = time.Second / 2
	u := script(t, func(c *peer, _ int) {
		c.head()
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
		for line := ""; line != "0\r\n"; { // the body ends after the response has begun
			line, _ = c.in.ReadString('\n')
		}
		time.Sleep(3 * timeout)
		c.say("k")
	})
	f := newFront(t, newPool(t, Config{Address: u.address, HeaderTimeout: timeout}), nil)
	c := dialFront(t, f)
	c.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	time.Sleep(2 * timeout) // the time in which the client sends its body does not count either
	c.say("2\r\nab\r\n0\r\n\r\n")
	res := c.response("POST")
	if body, err := io.ReadAll(res.Body); string(body) != "ok" || err != nil {
		t.Errorf("got %q, %v; want ok", body, err)
	}
	if r := f.result(t); r.err != nil {
		t.Errorf("outcome: %+v", r)
	}
}

func TestStreamLastsWhileItDoesNotStall(t *testing.T) {
	t.Parallel()
	const stall = time.Second
	u := script(t, func(c *peer, _ int) {
		c.request()
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
		for range 10 {
			time.Sleep(stall / 4)
			c.say("x")
		}
	})
	f := newFront(t, newPool(t, Config{Address: u.address, StallTimeout: stall}), nil)
	if _, body := f.get(t, "/"); body != "xxxxxxxxxx" {
		t.Errorf("got %q", body)
	}
}

func TestEarlyResponseReachesSendingClient(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]bool{"and the upstream closes": true, "and the upstream stops reading": false} {
		t.Run(name, func(t *testing.T) {
			u := script(t, func(c *peer, _ int) {
				c.head()
				c.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno!")
				if closes {
					return
				}
				c.hang()
			})
			p := newPool(t, Config{Address: u.address})
			f := newFront(t, p, nil)
			for range 3 {
				c := dialFront(t, f)
				c.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					piece := make([]byte, 64<<10)
					for range 100_000_000 / len(piece) {
						if _, err := c.Write(piece); err != nil {
							return
						}
					}
				}()
				res := c.response("POST")
				body, err := io.ReadAll(res.Body)
				if res.StatusCode != 413 || string(body) != "no!" || err != nil || !res.Close {
					t.Errorf("got %s %q %v, closing %v; want 413 no! and the connection closed", res.Status, body, err, res.Close)
				}
				_ = c.Close()
				<-sent
				if r := f.result(t); r.err != nil || r.Status != 413 {
					t.Errorf("outcome: %+v", r)
				}
			}
			if s := settled(t, p); s.Open != 0 {
				t.Errorf("connections were kept: %+v", s)
			}
		})
	}
}

func TestEarlyResponseStopsReadingSilentClient(t *testing.T) {
	t.Parallel()
	u := script(t, func(c *peer, _ int) {
		c.head()
		c.say("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
		c.hang()
	})
	p := newPool(t, Config{Address: u.address})
	f := newFront(t, p, nil)
	for _, framing := range []string{"Content-Length: 100000", "Transfer-Encoding: chunked"} {
		c := dialFront(t, f)
		c.say("POST / HTTP/1.1\r\nHost: a\r\n" + framing + "\r\n\r\n") // and nothing of the body
		res := c.response("POST")
		if body, err := io.ReadAll(res.Body); res.StatusCode != 403 || string(body) != "no" || err != nil || !res.Close {
			t.Errorf("got %s %q %v, closing %v; want 403 no and the connection closed", res.Status, body, err, res.Close)
		}
		if r := f.result(t); r.err != nil {
			t.Errorf("outcome: %+v", r)
		}
		if err := c.gone(); err != nil {
			t.Errorf("the client's connection ended with %v, want an orderly end", err)
		}
	}
	if s := settled(t, p); s.Open != 0 {
		t.Errorf("connections were kept: %+v", s)
	}
}

// stubborn is a body that sets deadlines of its own.
type stubborn struct {
	io.ReadCloser
	client *http.ResponseController
}

func (s *stubborn) Read(b []byte) (int, error) {
	time.Sleep(10 * time.Millisecond) // so that it is after ours
	_ = s.client.SetReadDeadline(time.Now().Add(patient))
	return s.ReadCloser.Read(b)
}

func TestEarlyResponseStopsBodyWithOwnDeadlines(t *testing.T) {
	t.Parallel()
	u := script(t, func(c *peer, _ int) {
		c.head()
		c.say("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
		c.hang()
	})
	f := newFront(t, newPool(t, Config{Address: u.address}), func(w http.ResponseWriter, r *http.Request) Head {
		r.Body = &stubborn{r.Body, http.NewResponseController(w)}
		return Head{}
	})
	began := time.Now()
	c := dialFront(t, f)
	c.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
	if res := c.response("POST"); res.StatusCode != 403 {
		t.Errorf("got %s, want 403", res.Status)
	}
	if r := f.result(t); r.err != nil || time.Since(began) > patient/2 {
		t.Errorf("after %v: %+v", time.Since(began), r)
	}
}

func TestRestOfBodyIsNotARequest(t *testing.T) {
	t.Parallel()
	var paths []string
	u := script(t, func(c *peer, _ int) {
		head := c.head()
		paths = append(paths, strings.Fields(head)[1])
		c.say("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
		_ = c.gone()
	})
	f := newFront(t, newPool(t, Config{Address: u.address}), nil)
	c := dialFront(t, f)
	c.say("POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
	res := c.response("POST")
	_, _ = io.ReadAll(res.Body)
	c.say("GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
	_ = c.gone()
	f.Close()
	if !slices.Equal(paths, []string{"/first"}) {
		t.Errorf("the upstream was asked for %q, want only the first", paths)
	}
}

func TestEarlyErrorOfTheUpstreamClosesTheConnection(t *testing.T) {
	t.Parallel()
	for how, stop := range cutOff {
		if how == "hangs" {
			continue
		}
		for _, framing := range []string{"Content-Length: 100000", "Transfer-Encoding: chunked"} {
			u := script(t, func(c *peer, _ int) {
				c.head()
				stop(c)
			})
			f := newFront(t, newPool(t, Config{Address: u.address}), nil)
			c := dialFront(t, f)
			c.say("POST / HTTP/1.1\r\nHost: a\r\n" + framing + "\r\n\r\n") // and nothing of the body
			if res := c.response("POST"); res.StatusCode != 502 || !res.Close {
				t.Errorf("%s, %s: got %s, closing %v; want 502 and the connection closed", how, framing, res.Status, res.Close)
			}
			if r := f.result(t); fault(r.err) != FaultBroken {
				t.Errorf("%s, %s: got %+v, want a broken connection: the body was fine so far", how, framing, r)
			}
		}
	}
}
