package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

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

func TestTrailersAreBounded(t *testing.T) {
	u := script(t, always("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: "+strings.Repeat("x", 20_000)+"\r\n\r\n"))
	f := newFront(t, newPool(t, Config{Address: u.address, MaxHeaderBytes: 8 << 10}), nil)
	_, _, err := f.try(t, "GET", "/", nil, nil)
	if r := f.result(t); err == nil || fault(r.err) != FaultResponse || !errors.Is(r.err, errHeadSize) {
		t.Errorf("got %v, %v; want the response aborted for its size", err, r.err)
	}
}
