package httplimit_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/rules"
)

// proxyWriter is the writer of a proxy that does nothing for the middleware.
type proxyWriter struct{ *httptest.ResponseRecorder }

var _ httplimit.ProxyWriter = proxyWriter{}

func (proxyWriter) Identified(*identity.Identifier) *identity.Attributes { return nil }
func (proxyWriter) HeaderLines() (buf []byte, ok bool)                   { return nil, false }
func (proxyWriter) SetHeaderLines([]byte, []string)                      {}
func (proxyWriter) Unserved() bool                                       { return false }

// lineRecorder is the writer of a proxy that takes lines.
type lineRecorder struct {
	proxyWriter
	takes   bool
	set     bool
	lines   string
	room    int // what is left for others
	instead []string
}

func newLineRecorder(takes bool) *lineRecorder {
	return &lineRecorder{proxyWriter: proxyWriter{httptest.NewRecorder()}, takes: takes}
}

func (r *lineRecorder) HeaderLines() (buf []byte, ok bool) { return make([]byte, 0, 64), r.takes }

func (r *lineRecorder) SetHeaderLines(lines []byte, instead []string) {
	r.set, r.lines, r.room, r.instead = true, string(lines), cap(lines), instead
}

// names returns the names of the lines.
func (r *lineRecorder) names() (names []string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(r.lines, "\r\n"), "\r\n") {
		name, _, _ := strings.Cut(line, ": ")
		names = append(names, name)
	}
	return names
}

func asked(path string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.RemoteAddr = "192.0.2.1:80"
	return r
}

func TestServerThatTakesLinesGetsThem(t *testing.T) {
	limited := []rules.Rule{{ID: "each", Key: byIP, When: onPath("/limited"), Limits: enginetest.Limits("1/h")}}
	g := newGate(t, limited, httplimit.Config{})
	h := g.limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, ok := w.(*lineRecorder); !ok {
			t.Errorf("the handler gets a %T, want the server's own", w)
		}
		w.WriteHeader(http.StatusOK)
	}))
	told := []string{"Ratelimit-Policy", "Ratelimit", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}

	w := newLineRecorder(true)
	h.ServeHTTP(w, asked("/limited"))
	if got := w.names(); !slices.Equal(got, told) || w.Code != 200 || len(w.Header()) != 0 {
		t.Errorf("lines of %v and header %v, want %v and none", got, w.Header(), told)
	}
	if want := told[2:]; !slices.Equal(w.instead, want) {
		t.Errorf("in place of %v, want %v", w.instead, want)
	}

	w = newLineRecorder(true)
	h.ServeHTTP(w, asked("/limited"))
	want := append([]string{"Cache-Control", "Content-Type", "Retry-After"}, told...)
	if got := w.names(); !slices.Equal(got, want) || w.Code != 429 || len(w.Header()) != 0 {
		t.Errorf("lines of %v and header %v, want %v and none", got, w.Header(), want)
	}
	for _, name := range append(want, "Content-Length", "Content-Encoding", "Etag", "Last-Modified") {
		if !slices.Contains(w.instead, name) {
			t.Errorf("in place of %v, want %s too", w.instead, name)
		}
	}
	if !strings.Contains(w.Body.String(), "quota-exceeded") {
		t.Errorf("body %q", w.Body)
	}

	w = newLineRecorder(true)
	h.ServeHTTP(w, asked("/free"))
	if w.lines != "" || !w.set || w.room == 0 {
		t.Errorf("lines %q, said: %t, in room for %d bytes; want none, but that they are, in the server's room", w.lines, w.set, w.room)
	}
}

func TestServerThatTakesNoLinesGetsAHeader(t *testing.T) {
	g := newGate(t, perIP("1/h"), httplimit.Config{})
	for _, status := range []int{200, 429} {
		w := newLineRecorder(false)
		g.limit(ok).ServeHTTP(w, asked("/"))
		if w.set || w.Code != status || w.Header().Get("X-RateLimit-Limit") != "1" {
			t.Errorf("status %d, lines %t, header %v; want %d and a header", w.Code, w.set, w.Header(), status)
		}
	}
}

// What a response costs is read from its header, which must be there then.
func TestCostOfAResponseKeepsTheHeader(t *testing.T) {
	g := newGate(t, byTokens, httplimit.Config{})
	w := newLineRecorder(true)
	g.limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Tokens-Used", "250")
		w.WriteHeader(http.StatusOK)
	})).ServeHTTP(w, asked("/"))
	if w.set || w.Header().Get("X-RateLimit-Remaining") != "900" {
		t.Errorf("lines %t, header %v; want a header", w.set, w.Header())
	}
	if got := g.store.Charges.Load(); got != 1 {
		t.Errorf("charged %d times, want once", got)
	}
}

func TestWhoGivesUpIsNotToldOfLimits(t *testing.T) {
	g := newGate(t, inTurn, httplimit.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 2 {
		w := newLineRecorder(true)
		r := asked("/").WithContext(ctx)
		r.Header.Set("X-API-Key", "k")
		g.store.OnTakeAll = func(context.Context) error {
			if i == 1 {
				defer cancel() // while it waits for its turn
			}
			return nil
		}
		g.limit(ok).ServeHTTP(w, r)
		if i == 1 && (w.Code != http.StatusServiceUnavailable || w.lines != "") {
			t.Errorf("status %d, lines %q; want 503 and none", w.Code, w.lines)
		}
	}
}

// identified is a proxy that has identified the client.
type identified struct {
	proxyWriter
	by  *identity.Identifier
	who *identity.Attributes
}

func (w *identified) Identified(by *identity.Identifier) *identity.Attributes {
	if by != w.by {
		return nil
	}
	return w.who
}

func TestServerMaySayWhoIsAsking(t *testing.T) {
	id, err := identity.New(identity.Config{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := identity.New(identity.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t, []rules.Rule{{ID: "each", Key: byAPIKey, Limits: enginetest.Limits("1/h")}}, httplimit.Config{Identifier: id})
	known := asked("/")
	known.Header.Set("X-API-Key", "known")
	var who identity.Attributes
	for _, c := range []struct {
		name string
		by   *identity.Identifier
		key  string // of the request
		want int
	}{
		{"by the same means", id, "a", 200},
		{"who is the same again", id, "b", 429},
		{"by other means, which do not count", other, "c", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.by.Read(known, &who)
			w := &identified{proxyWriter: proxyWriter{httptest.NewRecorder()}, by: c.by, who: &who}
			r := asked("/")
			r.Header.Set("X-API-Key", c.key)
			g.limit(ok).ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("status %d, want %d", w.Code, c.want)
			}
		})
	}
}

// TestLinesSayWhatTheHeaderSays asks gates with the same rules by chance, one of a server that takes lines and one of a
// server that does not.
func TestLinesSayWhatTheHeaderSays(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	passed := 0
	for range 100 {
		list, _ := enginetest.RandomRules(random)
		byLines, byHeader := newGate(t, list, httplimit.Config{}), newGate(t, list, httplimit.Config{})
		lines, header := byLines.limit(ok), byHeader.limit(ok)
		for range 20 {
			pause := time.Duration(random.ExpFloat64() * float64(300*time.Millisecond))
			byLines.clock.Advance(pause)
			byHeader.clock.Advance(pause)
			r := bareRequest(t)
			r.Header.Set("X-Weight", strconv.Itoa(1+random.IntN(4)))
			got, want := newLineRecorder(true), newLineRecorder(false)
			lines.ServeHTTP(got, r)
			header.ServeHTTP(want, r)
			if got.Code == http.StatusOK {
				passed++
			}
			if said := got.told(); got.Code != want.Code || !maps.EqualFunc(said, told(want.Header()), slices.Equal) {
				t.Fatalf("rules: %+v\ngot %d %v, want %d %v", list, got.Code, said, want.Code, told(want.Header()))
			}
			if got.Body.String() != want.Body.String() {
				t.Fatalf("rules: %+v\ngot %s\nwant %s", list, got.Body, want.Body)
			}
		}
	}
	if passed < 100 {
		t.Errorf("%d requests passed, want more than 100", passed)
	}
}

// told returns what a header tells of limits.
func told(h http.Header) http.Header {
	h = h.Clone()
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		return !strings.Contains(name, "Ratelimit") && name != "Retry-After"
	})
	return h
}

// told returns what the lines, and the header besides, tell of limits.
func (r *lineRecorder) told() http.Header {
	h := r.Header().Clone()
	for line := range strings.Lines(r.lines) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), ": ")
		h[name] = append(h[name], value)
	}
	return told(h)
}
