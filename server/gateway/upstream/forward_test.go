package upstream

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// serveHTTP starts a real upstream, and a front in front of it.
func serveHTTP(t *testing.T, h http.HandlerFunc) (*front, *Pool) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	p := newPool(t, Config{Address: s.Listener.Addr().String()})
	return newFront(t, p, nil), p
}

func TestRequestArrivesUnchanged(t *testing.T) {
	f, _ := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %q %q %d %q", r.Method, r.RequestURI, r.Host, r.Header["X-A"], r.UserAgent(), r.ContentLength, body)
	})
	for _, tt := range []struct{ method, path, body, want string }{
		{"GET", "/a/b?c=d&e", "", `GET /a/b?c=d&e HOST ["1" "2"] "me" 0 ""`},
		{"POST", "/", "hello", `POST / HOST ["1" "2"] "me" 5 "hello"`},
		{"POST", "/", "", `POST / HOST ["1" "2"] "me" 0 ""`},
		{"PATCH", "/%2F", "x", `PATCH /%2F HOST ["1" "2"] "me" 1 "x"`},
		{"DELETE", "/", "x", `DELETE / HOST ["1" "2"] "me" 1 "x"`},
		{"PROPFIND", "/", "", `PROPFIND / HOST ["1" "2"] "me" 0 ""`},
	} {
		_, got := f.do(t, tt.method, tt.path, strings.NewReader(tt.body), http.Header{"X-A": {"1", "2"}, "User-Agent": {"me"}})
		if want := strings.ReplaceAll(tt.want, "HOST", f.Listener.Addr().String()); got != want {
			t.Errorf("%s %s: the upstream saw\n %s, want\n %s", tt.method, tt.path, got, want)
		}
	}
}

func TestResponseArrivesUnchanged(t *testing.T) {
	f, _ := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X-Many"] = []string{"1", "2", "3"}
		w.Header().Set("Etag", `"x"`)
		w.Header().Set("Content-Type", "text/odd")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "short and stout")
	})
	for range 3 {
		res, body := f.get(t, "/")
		if res.StatusCode != http.StatusTeapot || body != "short and stout" || res.ContentLength != 15 ||
			!slices.Equal(res.Header["X-Many"], []string{"1", "2", "3"}) || res.Header.Get("Etag") != `"x"` ||
			res.Header.Get("Content-Type") != "text/odd" {
			t.Errorf("got %s %v %q of length %d", res.Status, res.Header, body, res.ContentLength)
		}
		if r := f.result(t); r.err != nil || r.Status != http.StatusTeapot || !r.Sent || r.Bytes != 15 {
			t.Errorf("outcome: got %+v, want status 418, sent, 15 bytes", r)
		}
	}
}

func TestBodiesOfAllSizesPassUnchanged(t *testing.T) {
	f, p := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("the upstream could not read the body: %v", err)
		}
		if r.URL.Query().Has("length") {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		}
		for piece := range slices.Chunk(body, 1+len(body)/3) {
			_, _ = w.Write(piece)
		}
	})
	random := rand.NewChaCha8([32]byte{1})
	for _, size := range []int{0, 1, 100, 4096, headBufferSize - 1, headBufferSize, headBufferSize + 1, 16 << 10, 16<<10 + 1, 32 << 10, 100_000, 1 << 20} {
		body := make([]byte, size)
		_, _ = random.Read(body)
		for _, path := range []string{"/", "/?length"} {
			for name, reader := range map[string]io.Reader{
				"known length": bytes.NewReader(body), "in chunks": io.MultiReader(bytes.NewReader(body)),
			} {
				res, got := f.do(t, "POST", path, reader, nil)
				if res.StatusCode != 200 || got != string(body) {
					t.Errorf("%d bytes, %s, %s: got %s with %d bytes, want the same back", size, name, path, res.Status, len(got))
				}
				if r := f.result(t); r.err != nil || r.Bytes != int64(size) {
					t.Errorf("%d bytes, %s, %s: outcome %+v", size, name, path, r)
				}
			}
		}
	}
	if s := settled(t, p); s.Dials != 1 {
		t.Errorf("%d connections were made, want 1 that is used again each time: %+v", s.Dials, s)
	}
}

func TestResponsesWithoutBodyEndAtOnce(t *testing.T) {
	for _, tt := range []struct{ name, method, response, wantLength string }{
		{"HEAD with a length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", "1000"},
		{"HEAD in chunks", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ""},
		{"HEAD without a length", "HEAD", "HTTP/1.1 200 OK\r\n\r\n", ""},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", ""},
		{"204 with a length", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n", ""},
		{"304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\nEtag: \"a\"\r\n\r\n", ""},
		{"304 in chunks", "GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", ""},
		{"length 0", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := script(t, always(tt.response))
			f := newFront(t, newPool(t, Config{Address: u.address}), nil)
			for range 3 {
				res, body := f.do(t, tt.method, "/", nil, nil)
				if body != "" || res.Header.Get("Content-Length") != tt.wantLength {
					t.Errorf("got %q and Content-Length %q, want none and %q", body, res.Header.Get("Content-Length"), tt.wantLength)
				}
				if r := f.result(t); r.err != nil || r.Bytes != 0 {
					t.Errorf("outcome: %+v", r)
				}
			}
			if n := u.connections(); n != 1 {
				t.Errorf("%d connections were made for 3 requests, want 1", n)
			}
		})
	}
}

func TestResponseBodyUntilConnectionEnd(t *testing.T) {
	for name, head := range map[string]string{
		"HTTP/1.0":             "HTTP/1.0 200 OK\r\n\r\n",
		"HTTP/1.1":             "HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.0, keep-alive": "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			u := script(t, func(c *peer, _ int) {
				c.request()
				c.say(head + strings.Repeat("x", 50_000))
			})
			p := newPool(t, Config{Address: u.address})
			f := newFront(t, p, nil)
			for range 2 {
				if _, body := f.get(t, "/"); body != strings.Repeat("x", 50_000) {
					t.Errorf("got %d bytes, want 50000", len(body))
				}
			}
			if s := settled(t, p); s.Open != 0 || s.Dials != 2 {
				t.Errorf("got %+v, want 2 connections made and none left", s)
			}
		})
	}
}

func TestConnectionIsReusedOnlyIfBothSidesAllow(t *testing.T) {
	for _, tt := range []struct {
		response string
		again    bool
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true},
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok", true},
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: Close\r\n\r\nok", false},
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive, x, close\r\n\r\nok", false},
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: x\r\nConnection: close\r\n\r\nok", false},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n", false},
		{"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false},
		{"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok", true},
	} {
		u := script(t, always(tt.response))
		p := newPool(t, Config{Address: u.address})
		f := newFront(t, p, nil)
		for range 2 {
			if _, body := f.get(t, "/"); body != "ok" {
				t.Errorf("%q: got %q", tt.response, body)
			}
		}
		s := settled(t, p)
		if got := s.Dials == 1 && s.Idle == 1; got != tt.again {
			t.Errorf("%q: used again: got %v, want %v: %+v", tt.response, got, tt.again, s)
		}
	}
}

func TestHopByHopResponseHeadersAreRemoved(t *testing.T) {
	u := script(t, always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\n"+
		"x-hop: 1\r\nX-HOP: 2\r\nProxy-Authenticate: Basic\r\nProxy-Connection: x\r\nUpgrade: h2c\r\nTE: x\r\nTrailer: X-T\r\nX-End: to end\r\n\r\nok"))
	f := newFront(t, newPool(t, Config{Address: u.address}), nil)
	c := dialFront(t, f)
	c.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	res := c.response("GET")
	for name := range res.Header {
		switch name {
		case "Content-Length", "X-End", "Date":
		default:
			t.Errorf("the client got %s: %q", name, res.Header[name])
		}
	}
	if got := res.Header.Get("X-End"); got != "to end" {
		t.Errorf("X-End: got %q", got)
	}
}

func TestHeadersSetBeforeForwardAreKept(t *testing.T) {
	u := script(t, always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Both: theirs\r\n\r\nok"))
	f := newFront(t, newPool(t, Config{Address: u.address}), func(w http.ResponseWriter, _ *http.Request) Head {
		w.Header().Set("X-Both", "ours")
		w.Header().Set("X-Ours", "1")
		return Head{}
	})
	res, _ := f.get(t, "/")
	if got, want := res.Header["X-Both"], []string{"ours", "theirs"}; !slices.Equal(got, want) || res.Header.Get("X-Ours") != "1" {
		t.Errorf("X-Both: got %q, want %q; X-Ours: got %q, want 1", got, want, res.Header.Get("X-Ours"))
	}
}

func TestNoContentTypeIsAdded(t *testing.T) {
	u := script(t, always("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"))
	f := newFront(t, newPool(t, Config{Address: u.address}), nil)
	res, _ := f.get(t, "/")
	if got, ok := res.Header["Content-Type"]; ok {
		t.Errorf("got %q, want none, as the upstream said none", got)
	}
}

func TestShortResponseInChunksGetsALength(t *testing.T) {
	u := script(t, always("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"))
	f := newFront(t, newPool(t, Config{Address: u.address}), nil)
	if res, body := f.get(t, "/"); res.ContentLength != 5 || body != "abcde" {
		t.Errorf("got length %d and %q, want 5 and abcde: all was there at once, so nothing need be flushed", res.ContentLength, body)
	}
}

func TestConcurrentRequestsAreNotMixedUp(t *testing.T) {
	f, p := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Id", r.Header.Get("X-Id"))
		_, _ = w.Write(body)
	})
	f.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 32
	errs := make(chan error, 16)
	for worker := range 16 {
		go func() {
			for i := range 25 {
				id := fmt.Sprint(worker, "/", i)
				want := strings.Repeat(id+",", 1+i*worker*3)
				var reader io.Reader = strings.NewReader(want)
				if i%2 == 1 {
					reader = io.MultiReader(reader)
				}
				res, got, err := f.try(t, "POST", "/", reader, http.Header{"X-Id": {id}})
				if err != nil || res.Header.Get("X-Id") != id || got != want {
					errs <- fmt.Errorf("request %s: got %w, %d bytes, want its own %d", id, err, len(got), len(want))
					return
				}
			}
			errs <- nil
		}()
	}
	for range 16 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if s := settled(t, p); s.Dials > 32 {
		t.Errorf("%d connections were made for 16 at once: %+v", s.Dials, s)
	}
}
