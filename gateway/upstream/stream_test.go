package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStreamsReachTheClientPieceByPiece(t *testing.T) {
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

func TestBothSidesMaySpeakAtOnce(t *testing.T) {
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

func TestResponseThatHasBegunIsNotTimedAsAHead(t *testing.T) {
	t.Parallel()
	const timeout = 100 * time.Millisecond
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
	time.Sleep(2 * timeout) // nor is the time in which the client sends his body
	c.say("2\r\nab\r\n0\r\n\r\n")
	res := c.response("POST")
	if body, err := io.ReadAll(res.Body); string(body) != "ok" || err != nil {
		t.Errorf("got %q, %v; want ok", body, err)
	}
	if r := f.result(t); r.err != nil {
		t.Errorf("outcome: %+v", r)
	}
}

func TestStreamMayLastAsLongAsItDoesNotStall(t *testing.T) {
	t.Parallel()
	const stall = 400 * time.Millisecond
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

func TestEarlyAnswerReachesAClientThatIsStillSending(t *testing.T) {
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

func TestEarlyAnswerEndsTheReadingOfAClientThatIsSilent(t *testing.T) {
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

func TestEarlyAnswerEndsTheReadingOfABodyWithDeadlinesOfItsOwn(t *testing.T) {
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

func TestWhatIsLeftOfABodyIsNoRequest(t *testing.T) {
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

func TestErrorBeforeTheBodyIsCompleteIsTheUpstreamsAndClosesTheConnection(t *testing.T) {
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

func TestTrailersPassBothWays(t *testing.T) {
	for name, announced := range map[string]bool{"announced": true, "not announced": false} {
		t.Run(name, func(t *testing.T) {
			var seen http.Header
			u := script(t, func(c *peer, _ int) {
				for {
					r, err := http.ReadRequest(c.in)
					if err != nil {
						return
					}
					if got := len(r.Trailer) > 0; got != announced {
						t.Errorf("trailers were announced to the upstream: got %v, want %v", got, announced)
					}
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						t.Error(err)
					}
					seen = maps.Clone(r.Trailer)
					head := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Sum: in the head\r\n"
					if announced {
						head += "Trailer: X-Sum, Set-Cookie\r\nTrailer: X-More\r\n"
					}
					c.say(head + "\r\n3\r\nabc\r\n0\r\nX-Sum: 6\r\nx-more: a\r\nX-More: b\r\nSet-Cookie: no\r\nContent-Length: 9\r\n\r\n")
				}
			})
			f := newFront(t, newPool(t, Config{Address: u.address}), func(http.ResponseWriter, *http.Request) Head {
				return Head{Fields: []Field{{"X-User-Id", "bob"}}}
			})
			c := dialFront(t, f)
			for range 2 {
				head := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
				if announced {
					head += "Trailer: X-Check, X-User-Id\r\n"
				}
				c.say(head + "\r\n5\r\nhello\r\n0\r\nX-Check: 1\r\nX-User-Id: admin\r\nAuthorization: x\r\nHost: evil\r\n\r\n")
				res := c.response("POST")
				if body, err := io.ReadAll(res.Body); string(body) != "abc" || err != nil {
					t.Fatalf("got %q, %v", body, err)
				}
				if want := (http.Header{"X-Sum": {"6"}, "X-More": {"a", "b"}}); !maps.EqualFunc(res.Trailer, want, slices.Equal) {
					t.Errorf("the client got trailers %q, want %q", res.Trailer, want)
				}
				if got := res.Header.Get("X-Sum"); got != "in the head" {
					t.Errorf("the header of a trailer's name: got %q", got)
				}
				if r := f.result(t); r.err != nil {
					t.Errorf("outcome: %+v", r)
				}
				if want := (http.Header{"X-Check": {"1"}}); !maps.EqualFunc(seen, want, slices.Equal) {
					t.Errorf("the upstream got trailers %q, want %q", seen, want)
				}
			}
		})
	}
}

func TestLargeTrailersPass(t *testing.T) {
	value := strings.Repeat("x", 40_000)
	u := script(t, func(c *peer, _ int) {
		r, err := http.ReadRequest(bufio.NewReaderSize(c.Conn, 1<<20))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Back: " + r.Trailer.Get("X-Large") + "\r\n\r\n")
	})
	p := newPool(t, Config{Address: u.address})
	r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("body")))
	r.Trailer = http.Header{"X-Large": {value}}
	w := httptest.NewRecorder()
	if _, err := p.Forward(context.Background(), w, r, Head{}); err != nil {
		t.Fatal(err)
	}
	if got := w.Header().Get(http.TrailerPrefix + "X-Back"); got != value {
		t.Errorf("got %d bytes back, want %d", len(got), len(value))
	}
}

func TestChunksOfTheRequestGoOutAsTheyCome(t *testing.T) {
	got := make(chan string, 10)
	u := script(t, func(c *peer, _ int) {
		if head := c.head(); !strings.Contains(head, "Transfer-Encoding: chunked\r\n") {
			t.Errorf("got head %q", head)
		}
		for {
			size, err := c.in.ReadString('\n')
			if err != nil {
				return
			}
			line, _ := c.in.ReadString('\n')
			got <- size + line
			if size == "0\r\n" {
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		}
	})
	f := newFront(t, newPool(t, Config{Address: u.address}), nil)
	c := dialFront(t, f)
	c.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, chunk := range []string{"5\r\nhello\r\n", "6\r\n world\r\n", "0\r\n\r\n"} {
		c.say(chunk)
		select {
		case g := <-got:
			if g != chunk {
				t.Errorf("got %q, want %q", g, chunk)
			}
		case <-time.After(patient):
			t.Fatalf("%q did not arrive", chunk)
		}
	}
	if res := c.response("POST"); res.StatusCode != 200 {
		t.Errorf("got %s", res.Status)
	}
}

func TestBodyThatBreaksOffIsNotSentAsComplete(t *testing.T) {
	for name, tt := range map[string]struct {
		say  string
		want error
	}{
		"in chunks":          {"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", io.ErrUnexpectedEOF},
		"of small length":    {"Content-Length: 10\r\n\r\nhello", io.ErrUnexpectedEOF},
		"of large length":    {"Content-Length: 100000\r\n\r\nhello", io.ErrUnexpectedEOF},
		"in malformed chunk": {"Transfer-Encoding: chunked\r\n\r\n5\r\nhello!!", nil},
	} {
		t.Run(name, func(t *testing.T) {
			broken := make(chan error, 1)
			u := script(t, func(c *peer, _ int) {
				r, err := http.ReadRequest(c.in)
				if err == nil {
					_, err = io.Copy(io.Discard, r.Body)
				}
				broken <- err
			})
			p := newPool(t, Config{Address: u.address})
			f := newFront(t, p, nil)
			c := dialFront(t, f)
			c.say("POST / HTTP/1.1\r\nHost: a\r\n" + tt.say)
			if tt.want != nil {
				_ = c.Close()
			}
			r := f.result(t)
			if fault(r.err) != FaultBody && fault(r.err) != FaultClient || r.Sent || r.Repeatable {
				t.Errorf("outcome: got %+v, want a fault of the body or the client, and nothing sent", r)
			}
			if s := settled(t, p); s.Open != 0 {
				t.Errorf("the connection was kept: %+v", s)
			}
			select {
			case err := <-broken:
				if err == nil {
					t.Error("the upstream took the body for complete")
				}
			default: // it was never asked
			}
		})
	}
}

func TestTooLargeBodyIsTheClientsFault(t *testing.T) {
	u := script(t, func(c *peer, _ int) { _ = c.gone() })
	for name, body := range map[string]io.Reader{
		"known": strings.NewReader(strings.Repeat("x", 50_000)), "unknown": io.MultiReader(strings.NewReader(strings.Repeat("x", 50_000))),
		"small": strings.NewReader(strings.Repeat("x", 2000)),
	} {
		f := newFront(t, newPool(t, Config{Address: u.address}), func(_ http.ResponseWriter, r *http.Request) Head {
			r.Body = http.MaxBytesReader(nil, r.Body, 1000)
			return Head{}
		})
		res, _ := f.do(t, "POST", "/", body, nil)
		var tooLarge *http.MaxBytesError
		if r := f.result(t); res.StatusCode != 413 || fault(r.err) != FaultBody || !errors.As(r.err, &tooLarge) {
			t.Errorf("%s: got %s, %v; want 413 and a fault of the body", name, res.Status, r.err)
		}
	}
}

func TestBodyLongerThanItsLengthIsCut(t *testing.T) {
	for _, length := range []int64{5, 20_000} {
		var got bytes.Buffer
		u := script(t, func(c *peer, _ int) {
			r := c.request()
			_, _ = got.ReadFrom(r.Body)
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			if rest, _ := io.ReadAll(c.in); len(rest) > 0 {
				t.Errorf("the upstream got %d bytes after the request", len(rest))
			}
		})
		p := newPool(t, Config{Address: u.address})
		r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", 50_000)))
		r.ContentLength = length
		if _, err := p.Forward(context.Background(), httptest.NewRecorder(), r, Head{}); err != nil {
			t.Error(err)
		}
		settled(t, p)
		if got.Len() != int(length) {
			t.Errorf("the upstream got %d bytes, want %d", got.Len(), length)
		}
	}
}
