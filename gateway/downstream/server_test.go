package downstream

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// answers are handlers of all kinds, by path.
var answers = map[string]http.HandlerFunc{
	"/nothing": func(http.ResponseWriter, *http.Request) {},
	"/short":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
	"/html":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<!DOCTYPE html><p>") },
	"/pieces": func(w http.ResponseWriter, _ *http.Request) {
		for range 10 {
			_, _ = w.Write([]byte("piece "))
		}
	},
	"/long": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 100 {
			_, _ = w.Write(slices.Repeat([]byte(strconv.Itoa(i%10)), 1000))
		}
	},
	"/huge": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(slices.Repeat([]byte("0123456789"), 30_000))
	},
	"/length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		w.Header().Set("Content-Type", "text/x-test")
		for range 100 {
			_, _ = w.Write(slices.Repeat([]byte("x"), 1000))
		}
	},
	"/untyped": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
	},
	"/length-guessed": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
	},
	"/encoded": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "<html>")
	},
	"/too-much": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "2")
		if n, err := io.WriteString(w, "hello"); n != 0 || !errors.Is(err, http.ErrContentLength) {
			panic("wrote too much")
		}
		_, _ = io.WriteString(w, "")
	},
	"/too-little": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "20")
		_, _ = io.WriteString(w, "hello")
	},
	"/flushed": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, " world")
	},
	"/flushed-empty": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
	"/204":           func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204); _, _ = io.WriteString(w, "x") },
	"/304": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "7")
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Etag", `"1"`)
		w.WriteHeader(304)
	},
	"/404": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 404) },
	"/599": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(599) },
	"/twice": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(201)
		w.Header().Set("X-Late", "1")
		w.WriteHeader(202)
	},
	"/interim": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-Final", "1")
		_, _ = io.WriteString(w, "done")
	},
	"/trailers": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-A, X-B")
		_, _ = io.WriteString(w, "hello")
		w.Header().Set("X-A", "1")
		w.Header().Set("X-B", "2")
	},
	"/late-trailers": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"X-A", "1")
		w.Header().Set(http.TrailerPrefix+"X-B", "2")
	},
	"/close": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "bye")
	},
	"/header": func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["X-Many"] = []string{"a", "b", ""}
		h.Set("X-Break", "a\r\nX-Evil: b")
		h["Bad Name"] = []string{"x"}
		h["X-None"] = nil
		h.Set("Date", "Sun, 15 Nov 2026 08:00:00 GMT")
		h.Set("Server", " spaces ")
		h.Set("Keep-Alive", "timeout=5")
		_, _ = io.WriteString(w, "x")
	},
	"/undated": func(w http.ResponseWriter, _ *http.Request) { w.Header()["Date"] = nil },
	"/echo": func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Length", strconv.FormatInt(r.ContentLength, 10))
		_, _ = w.Write(body)
	},
	"/unread": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "not read") },
}

func answerAll(w http.ResponseWriter, r *http.Request) {
	if h := answers[r.URL.Path]; h != nil {
		h(w, r)
	}
}

func TestAnswersAreThoseOfNetHTTP(t *testing.T) {
	ours, theirs := start(t, answerAll), reference(t, answerAll)
	for path := range answers {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			for _, connection := range []string{"keep-alive", "close"} {
				t.Run(method+path+" "+connection, func(t *testing.T) {
					text := lines(method+" "+path+" HTTP/1.1", "Host: x", "Connection: "+connection)
					if method == "POST" {
						text = lines("POST "+path+" HTTP/1.1", "Host: x", "Connection: "+connection, "Content-Length: 5") + "12345"
					}
					got, gotMore := exchangeWith(t, ours.addr, text, method)
					want, wantMore := exchangeWith(t, theirs, text, method)
					for i := range min(len(got), len(want)) {
						got, want := got[i], want[i]
						if _, ok := want.header["Date"]; ok && got.header.Get("Date") != "" {
							want.header["Date"] = got.header["Date"]
						}
						if got.err == nil != (want.err == nil) {
							t.Errorf("body %.50q: %v, want %v", got.body, got.err, want.err)
						}
						got.err, want.err = nil, nil
						if path == "/header" && got.header.Get("X-Break") == "a  X-Evil: b" {
							want.header["X-Break"] = got.header["X-Break"]
						}
						got.body, want.body = shortened(got.body), shortened(want.body)
						if !reflect.DeepEqual(got, want) {
							t.Errorf("got  %+v\nwant %+v", got, want)
						}
					}
					if len(got) != len(want) || gotMore != wantMore {
						t.Errorf("%d answers, then more: %t; want %d, %t", len(got), gotMore, len(want), wantMore)
					}
				})
			}
		}
	}
	if got := ours.log.String(); got != "" {
		t.Errorf("log: %s", got)
	}
}

// shortened returns a body as an error can tell it.
func shortened(body string) string {
	if len(body) < 200 {
		return body
	}
	return fmt.Sprintf("%.20q and so on, %d bytes with sum %x", body, len(body), sha256.Sum256([]byte(body)))
}

// exchangeWith sends a request and reads what comes, interim answers too. It tells whether another one can be sent.
func exchangeWith(t testing.TB, addr, text, method string) (all []answer, more bool) {
	t.Helper()
	c, r := dial(t, addr)
	send(t, c, text)
	for {
		a := receive(t, r, method)
		if a.header.Get("X-Rest") != "" {
			t.Fatal("it was net/http that answered")
		}
		all = append(all, a)
		if a.status >= 200 {
			break
		}
	}
	if all[len(all)-1].err != nil {
		return all, false
	}
	_, _ = io.WriteString(c, get("/short", "Connection: close"))
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return all, false
	}
	body, err := io.ReadAll(res.Body)
	return all, err == nil && string(body) == "hello"
}

func TestFramingIsOursAlone(t *testing.T) {
	for name, set := range map[string]func(http.Header){
		"bad length":      func(h http.Header) { h.Set("Content-Length", "x") },
		"several lengths": func(h http.Header) { h["Content-Length"] = []string{"5", "6"} },
		"encoding":        func(h http.Header) { h.Set("Transfer-Encoding", "chunked") },
		"other encoding":  func(h http.Header) { h.Set("Transfer-Encoding", "gzip") },
		"trailer":         func(h http.Header) { h.Set(http.TrailerPrefix+"Content-Length", "7") },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, func(w http.ResponseWriter, _ *http.Request) {
				set(w.Header())
				_, _ = io.WriteString(w, "hello")
			})
			c, r := dial(t, s.addr)
			for range 2 {
				send(t, c, get("/"))
				if a := receive(t, r, "GET"); a.body != "hello" || a.err != nil || len(a.coding) == 0 && a.length != 5 {
					t.Errorf("got %+v", a)
				}
			}
		})
	}
}

func TestOddRequestsAreAnsweredByNetHTTPInTheirOrder(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+r.RequestURI+" "+string(body))
	})
	for name, odd := range map[string]string{
		"chunks":   lines("POST /odd HTTP/1.1", "Host: x", "Transfer-Encoding: chunked") + "3\r\nabc\r\n0\r\n\r\n",
		"absolute": get("http://example.com/odd"),
		"folded":   get("/odd", "A: b", " c"),
		"bare LF":  "GET /odd HTTP/1.1\nHost: x\n\n",
		"long":     get("/odd", "A: "+strings.Repeat("a", maxHead)),
		"options":  lines("OPTIONS * HTTP/1.1", "Host: x"),
		"named":    get("/odd", "Connection: X-Other"),
	} {
		t.Run(name, func(t *testing.T) {
			c, r := dial(t, s.addr)
			// All at once, so that bytes of all are read together.
			send(t, c, get("/first")+lines("POST /second HTTP/1.1", "Host: x", "Content-Length: 3")+"abc"+odd+get("/last"))
			for i, want := range []string{"/first", "/second", "", "/last"} {
				a := receive(t, r, "GET")
				if a.status != 200 || want != "" && !strings.Contains(a.body, want) {
					t.Fatalf("answer %d: %d %q, want 200 and %q", i, a.status, a.body, want)
				}
				if rest := a.header.Get("X-Rest") != ""; rest != (i >= 2) {
					t.Errorf("answer %d by net/http: %t", i, rest)
				}
			}
		})
	}
	until(t, "no connection is ours", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 0
	})
	if got := s.ended.get(); got != 0 {
		t.Errorf("%d connections have ended here, want none: they were handed over", got)
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })
	for _, text := range []string{
		"GET / HTTP/1.1\r\n\r\n",
		get("/", "Host: other"),
		get("/", "Content-Length: 1", "Content-Length: 2"),
		get("/", "Content-Length: 1x"),
		get("/", "A\x00: b"),
		get("/", "A: \x00"),
		get("/ "),
		"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
		"\x16\x03\x01\x02" + strings.Repeat("x", 100) + "\r\n\r\n",
		lines("POST / HTTP/1.1", "Host: x", "Content-Length: 3", "Transfer-Encoding: gzip, chunked"),
	} {
		c, r := dial(t, s.addr)
		send(t, c, text)
		a := receive(t, r, "GET") // within the time that the connection has
		if a.status < 400 || !a.close {
			t.Errorf("%q: %d %q, want it refused and the connection closed", text, a.status, a.body)
		}
	}
}

func TestHTTP2AndTLS(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+strconv.FormatBool(r.TLS != nil)+" "+r.RemoteAddr)
	}
	plain, secure := start(t, h), start(t, h, withTLS(t))
	for _, c := range []struct {
		name, url, want string
		rest            bool
		http1, http2    bool
	}{
		{name: "HTTP/1.1", url: "http://" + plain.addr, want: "HTTP/1.1 false 127.", http1: true},
		{name: "h2c", url: "http://" + plain.addr, want: "HTTP/2.0 false 127.", http2: true, rest: true},
		{name: "HTTP/1.1 over TLS", url: "https://" + secure.addr, want: "HTTP/1.1 true 127.", http1: true},
		{name: "HTTP/2 over TLS", url: "https://" + secure.addr, want: "HTTP/2.0 true 127.", http2: true, rest: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := new(http.Protocols)
			p.SetHTTP1(c.http1)
			p.SetHTTP2(c.http2)
			p.SetUnencryptedHTTP2(c.http2)
			tr := &http.Transport{Protocols: p, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			defer tr.CloseIdleConnections()
			client := &http.Client{Transport: tr, Timeout: patience}
			for range 3 {
				res, err := client.Get(c.url)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || !strings.HasPrefix(string(body), c.want) {
					t.Errorf("%q, %v, want %q", body, err, c.want)
				}
				if rest := res.Header.Get("X-Rest") != ""; rest != c.rest {
					t.Errorf("answered by net/http: %t, want %t", rest, c.rest)
				}
			}
		})
	}
	t.Run("odd over TLS", func(t *testing.T) {
		c, err := tls.Dial("tcp", secure.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(patience))
		send(t, c, get("/")+get("http://example.com/"))
		r := newReader(c)
		for i, rest := range []bool{false, true} {
			a := receive(t, r, "GET")
			if a.status != 200 || !strings.HasPrefix(a.body, "HTTP/1.1 true") || (a.header.Get("X-Rest") != "") != rest {
				t.Errorf("answer %d: %+v", i, a)
			}
		}
	})
	t.Run("no TLS where it is wanted", func(t *testing.T) {
		c, r := dial(t, secure.addr)
		send(t, c, get("/"))
		if a := receive(t, r, "GET"); a.status != 400 {
			t.Errorf("status %d, want 400", a.status)
		}
		until(t, "the log tells", func() bool { return strings.Contains(secure.log.String(), "TLS handshake error") })
	})
}

func TestLongHeadersAreReadInPiecesAndNotKept(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range len(r.Header) {
			w.Header()["X-"+strconv.Itoa(i)] = []string{"a"}
		}
		_, _ = io.WriteString(w, strconv.Itoa(len(r.Header))+r.Header.Get("X-999"))
	})
	var many []string
	for i := range 1000 {
		many = append(many, "X-"+strconv.Itoa(i)+": v"+strconv.Itoa(i))
	}
	text := get("/", many...)
	if len(text) <= 2*headBuffer || len(text) > maxHead {
		t.Fatalf("%d bytes", len(text))
	}
	for _, piece := range []int{len(text), headBuffer, headBuffer + 1, 1000, 3333} {
		c, r := dial(t, s.addr)
		for range 2 {
			for rest := text; rest != ""; {
				n := min(piece, len(rest))
				send(t, c, rest[:n])
				rest = rest[n:]
			}
			a := receive(t, r, "GET")
			if a.body != "1000v999" || a.header.Get("X-Rest") != "" || len(a.header) < 1000 {
				t.Fatalf("in pieces of %d: %q", piece, a.body)
			}
		}
		send(t, c, get("/"))
		if a := receive(t, r, "GET"); a.body != "0" {
			t.Errorf("after that %q, want none", a.body)
		}
		_ = c.Close()
	}
	c, r := dial(t, s.addr)
	send(t, c, text)
	receive(t, r, "GET")
	var kept *conn
	until(t, "the connection is idle, the last that there is", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for kept = range s.conns { // whichever
		}
		return len(s.conns) == 1 && kept.state.Load() == isIdle
	})
	if cap(kept.values) > 0 || len(kept.request.Header) > 0 || len(kept.response.header) > 0 || cap(kept.response.out) > 2*outBuffer {
		t.Errorf("kept: %d values, %d and %d headers, %d bytes", cap(kept.values), len(kept.request.Header), len(kept.response.header),
			cap(kept.response.out))
	}
}

func TestContextEndsWhenTheClientHangsUp(t *testing.T) {
	for name, body := range map[string]string{"without a body": "", "with one": "hello"} {
		for _, by := range []string{"Done", "AfterFunc"} {
			t.Run(name+" "+by, func(t *testing.T) {
				arrived, ended := make(chan struct{}), make(chan error, 1)
				s := start(t, func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.ReadAll(r.Body)
					gone := make(chan struct{})
					if by == "AfterFunc" {
						stop := context.AfterFunc(r.Context(), func() { close(gone) })
						defer stop()
					}
					if r.Context().Err() != nil {
						t.Error("it has ended already")
					}
					close(arrived)
					select {
					case <-r.Context().Done():
					case <-gone:
					case <-time.After(patience):
					}
					ended <- r.Context().Err()
				})
				c, _ := dial(t, s.addr)
				send(t, c, lines("POST / HTTP/1.1", "Host: x", "Content-Length: "+strconv.Itoa(len(body)))+body)
				wait(t, "the request", arrived)
				_ = c.Close()
				if err := wait(t, "the end", ended); !errors.Is(err, context.Canceled) {
					t.Errorf("error %v, want %v", err, context.Canceled)
				}
				until(t, "the connection is over", func() bool { return s.ended.get() == 1 })
			})
		}
	}
}

func TestContextOfOneRequestIsNotThatOfTheNext(t *testing.T) {
	var contexts []context.Context
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		contexts = append(contexts, r.Context())
		_ = r.Context().Done()
	})
	c, r := dial(t, s.addr)
	for range 3 {
		send(t, c, get("/"))
		receive(t, r, "GET")
	}
	for i, x := range contexts[:2] {
		select {
		case <-x.Done():
		case <-time.After(patience):
			t.Errorf("context %d has not ended with its request", i)
		}
	}
	if contexts[0] == contexts[1] || contexts[1] == contexts[2] {
		t.Error("two requests have the same context")
	}
	before := runtime.NumGoroutine()
	child, cancel := context.WithCancel(contexts[0])
	defer cancel()
	if child.Err() == nil {
		t.Error("the child of a context that is over is not")
	}
	if got := runtime.NumGoroutine(); got > before+1 {
		t.Errorf("%d goroutines, want at most %d", got, before+1)
	}
}

func TestContextThatIsAskedTooLateHarmsNobody(t *testing.T) {
	contexts := make(chan context.Context, 10)
	s := start(t, func(_ http.ResponseWriter, r *http.Request) { contexts <- r.Context() })
	c, r := dial(t, s.addr)
	for range 5 {
		send(t, c, get("/"))
		receive(t, r, "GET")
		_ = (<-contexts).Done() // of a request that is over
	}
}

func TestWhatComesWhileTheClientIsWatchedIsTheNextRequest(t *testing.T) {
	seen := make(chan string, 3)
	second := make(chan struct{})
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			_ = r.Context().Done()
			wait(t, "the second request is sent", second)
			// Half of the next request may have been read by who watches.
			for range 100 {
				runtime.Gosched()
			}
			if r.Context().Err() != nil {
				t.Error("the client is taken to have gone")
			}
		}
		seen <- r.URL.Path
	})
	c, r := dial(t, s.addr)
	send(t, c, get("/first"))
	next := get("/second")
	send(t, c, next[:7])
	close(second)
	receive(t, r, "GET")
	send(t, c, next[7:]+get("/third"))
	receive(t, r, "GET")
	receive(t, r, "GET")
	for _, want := range []string{"/first", "/second", "/third"} {
		if got := <-seen; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestBodyThatNobodyReadsDoesNotBecomeARequest(t *testing.T) {
	evil := get("/evil")
	for _, c := range []struct {
		name  string
		early int  // bytes that are sent at once
		size  int  // of the body
		goes  bool // the connection can be used on
	}{
		{"whole", len(evil), len(evil), true},
		{"in part", 10, len(evil), true},
		{"later", 0, len(evil), true},
		{"larger", 0, maxDrain, true},
		{"too large", 0, maxDrain + 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
			conn, r := dial(t, s.addr)
			body := strings.Repeat(evil, c.size/len(evil)+1)[:c.size]
			send(t, conn, lines("POST /good HTTP/1.1", "Host: x", "Content-Length: "+strconv.Itoa(c.size))+body[:c.early])
			a := receive(t, r, "POST")
			if a.body != "/good" || a.close == c.goes {
				t.Fatalf("got %q, close %t; want /good, %t", a.body, a.close, !c.goes)
			}
			_, _ = io.WriteString(conn, body[c.early:])
			if !c.goes {
				wantEnd(t, r)
				return
			}
			send(t, conn, get("/next"))
			if a := receive(t, r, "GET"); a.body != "/next" {
				t.Errorf("got %q, want /next", a.body)
			}
		})
	}
}

func TestBodyThatBreaksOffIsAnError(t *testing.T) {
	failed := make(chan error, 1)
	ended := make(chan error, 1)
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		failed <- err
		ended <- r.Context().Err()
	})
	c, _ := dial(t, s.addr)
	send(t, c, lines("POST / HTTP/1.1", "Host: x", "Content-Length: 10")+"half")
	_ = c.Close()
	if err := wait(t, "the error", failed); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the context says %v, want %v", err, context.Canceled)
	}
}

func TestBodyMayBeReadWhileTheAnswerIsWritten(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		buffer := make([]byte, 1)
		for {
			n, err := r.Body.Read(buffer)
			_, _ = w.Write(buffer[:n])
			_ = c.Flush()
			if err != nil {
				return
			}
		}
	})
	c, r := dial(t, s.addr)
	send(t, c, lines("POST / HTTP/1.1", "Host: x", "Content-Length: 3"))
	res := make(chan answer, 1)
	send(t, c, "a")
	if _, err := r.Peek(1); err != nil {
		t.Fatal(err) // there is an answer before the body is complete
	}
	go func() { res <- receive(t, r, "POST") }()
	send(t, c, "bc")
	if a := wait(t, "the answer", res); a.body != "abc" {
		t.Errorf("got %q, want abc", a.body)
	}
}

func TestBodyHasTheDeadlineThatTheHandlerSets(t *testing.T) {
	failed := make(chan error, 1)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			_, err := io.ReadAll(r.Body)
			failed <- err
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		}
	}, func(s *Server) { s.IdleTimeout = patience })
	c, r := dial(t, s.addr)
	send(t, c, lines("POST / HTTP/1.1", "Host: x", "Content-Length: 3"))
	if err := wait(t, "the error", failed); !isTimeout(err) {
		t.Errorf("error %v, want one of time", err)
	}
	if a := receive(t, r, "POST"); a.status != 200 {
		t.Errorf("status %d", a.status)
	}
	send(t, c, "abc"+get("/next"))
	if a := receive(t, r, "GET"); a.status != 200 {
		t.Errorf("status %d of the next request", a.status)
	}
}

func TestClientThatReadsNothingIsCutOff(t *testing.T) {
	failed := make(chan error, 1)
	s := start(t, func(w http.ResponseWriter, _ *http.Request) {
		b := make([]byte, 1<<20)
		for {
			if _, err := w.Write(b); err != nil {
				failed <- err
				return
			}
		}
	}, func(s *Server) { s.WriteTimeout = 50 * time.Millisecond })
	c, _ := dial(t, s.addr)
	send(t, c, get("/"))
	if err := wait(t, "writing fails", failed); !isTimeout(err) {
		t.Errorf("error %v, want one of time", err)
	}
	until(t, "the connection is over", func() bool { return s.ended.get() == 1 })
}

func TestHandlerThatPanicsEndsTheConnection(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "not all")
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
		panic("as it happens")
	})
	for _, path := range []string{"/abort", "/panic"} {
		c, r := dial(t, s.addr)
		send(t, c, get(path))
		if res, err := http.ReadResponse(r, nil); err == nil {
			if body, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("%s: the answer %q looks complete", path, body)
			}
		}
		until(t, "the connection is over", func() bool { return s.ended.get() > 0 })
	}
	until(t, "the log tells", func() bool { return strings.Contains(s.log.String(), "as it happens") })
	if strings.Contains(s.log.String(), "abort") {
		t.Errorf("log: %s", s.log)
	}
}

func TestHandlerMayTakeTheConnectionOver(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.Context().Done() // it is being watched
		c, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		word, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(c, "said "+word)
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
			t.Errorf("Write: %v", err)
		}
	})
	for _, later := range []bool{false, true} {
		c, r := dial(t, s.addr)
		if later {
			send(t, c, get("/"))
			send(t, c, "hello\n")
		} else {
			send(t, c, get("/")+"hello\n")
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != "said hello\n" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	until(t, "both are over", func() bool { return s.ended.get() == 2 })
}

func TestShutdownFinishesWhatIsUnderWay(t *testing.T) {
	arrived, goOn := make(chan struct{}, 2), make(chan struct{})
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			wait(t, "the rest", goOn)
		}
		_, _ = io.WriteString(w, "done")
	})
	idle, idleReader := dial(t, s.addr)
	send(t, idle, get("/"))
	receive(t, idleReader, "GET")
	busy, busyReader := dial(t, s.addr)
	send(t, busy, get("/slow"))
	odd, oddReader := dial(t, s.addr)
	send(t, odd, get("http://example.com/slow"))
	<-arrived
	<-arrived
	done := shutdown(t, s.Server)
	wantEnd(t, idleReader)
	select {
	case err := <-done:
		t.Fatalf("Shutdown has returned %v before all is done", err)
	default:
	}
	close(goOn)
	for _, r := range []answer{receive(t, busyReader, "GET"), receive(t, oddReader, "GET")} {
		if r.body != "done" || !r.close {
			t.Errorf("got %+v, want it done and closed", r)
		}
	}
	if err := wait(t, "Shutdown", done); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if _, err := net.Dial("tcp", s.addr); err == nil {
		t.Error("it still accepts connections")
	}
}

func TestShutdownThatTakesTooLong(t *testing.T) {
	arrived, ended := make(chan struct{}), make(chan struct{})
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(ended)
	})
	c, _ := dial(t, s.addr)
	send(t, c, get("/"))
	wait(t, "the request", arrived)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v, want %v", err, context.Canceled)
	}
	_ = s.Close()
	wait(t, "the handler hears of it", ended)
}

func TestLinesAreSentAsTheyAre(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		lw := w.(interface {
			HeaderLines() (room []byte, ok bool)
			SetHeaderLines(lines []byte, instead []string)
		})
		if r.URL.Path == "/lines" {
			room, _ := lw.HeaderLines()
			lw.SetHeaderLines(append(room, "X-Limit: 1\r\nContent-Type: a/b\r\n"...), []string{"X-Limit", "Content-Length"})
		}
		w.Header().Set("X-Limit", "2")
		w.Header().Set("X-Other", "3")
		w.Header().Set("Content-Length", "1234")
		w.WriteHeader(http.StatusEarlyHints)
		if r.URL.Path != "/lines" {
			w.Header().Del("Content-Length")
		}
		_, _ = io.WriteString(w, "body")
	})
	c, r := dial(t, s.addr)
	for _, want := range []struct{ path, limit, kind string }{{"/lines", "1", "a/b"}, {"/", "2", "text/plain; charset=utf-8"}} {
		send(t, c, get(want.path))
		if a := receive(t, r, "GET"); a.status != 103 || a.header.Get("X-Limit") != "2" {
			t.Errorf("interim answer %+v", a)
		}
		a := receive(t, r, "GET")
		if !slices.Equal(a.header["X-Limit"], []string{want.limit}) || a.header.Get("X-Other") != "3" || a.body != "body" ||
			a.length != 4 || a.header.Get("Content-Type") != want.kind {
			t.Errorf("%s: %+v", want.path, a)
		}
	}
}
