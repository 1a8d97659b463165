package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestRequestChunksAreSentAsTheyArrive(t *testing.T) {
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

func TestTruncatedBodyIsNotSentAsComplete(t *testing.T) {
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
			default: // it was not called
			}
		})
	}
}

func TestOversizedBodyIsBlamedOnClient(t *testing.T) {
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

func TestBodyLongerThanContentLengthIsCut(t *testing.T) {
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
