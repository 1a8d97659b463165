package downstream

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"testing"
)

// responders are handlers of all kinds, by path.
var responders = map[string]http.HandlerFunc{
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

func respondToAll(w http.ResponseWriter, r *http.Request) {
	if h := responders[r.URL.Path]; h != nil {
		h(w, r)
	}
}

func TestResponsesMatchNetHTTP(t *testing.T) {
	ours, theirs := start(t, respondToAll), reference(t, respondToAll)
	for path := range responders {
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
						t.Errorf("%d responses, then more: %t; want %d, %t", len(got), gotMore, len(want), wantMore)
					}
				})
			}
		}
	}
	if got := ours.log.String(); got != "" {
		t.Errorf("log: %s", got)
	}
}

// shortened returns a body for an error message.
func shortened(body string) string {
	if len(body) < 200 {
		return body
	}
	return fmt.Sprintf("%.20q and so on, %d bytes with sum %x", body, len(body), sha256.Sum256([]byte(body)))
}

// exchangeWith sends a request and reads the responses, including interim ones. It reports whether another request can
// follow.
func exchangeWith(t testing.TB, addr, text, method string) (all []clientResponse, more bool) {
	t.Helper()
	c, r := dial(t, addr)
	send(t, c, text)
	for {
		a := receive(t, r, method)
		if a.header.Get("X-Rest") != "" {
			t.Fatal("it was net/http that served")
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

func TestHandlersCannotSetFraming(t *testing.T) {
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
