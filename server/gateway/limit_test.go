package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/await"
)

// A ResponseWriter that a limiter wraps around the gateway's.
type limitWriter struct{ http.ResponseWriter }

func (w limitWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w limitWriter) WriteHeader(code int) {
	w.Header().Set("X-RateLimit-Limit", "10")
	w.ResponseWriter.WriteHeader(code)
}

func TestLimiterCanWrapWriter(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.Limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(limitWriter{limitWriter{w}}, r.WithContext(r.Context()))
		})
	}
	g := start(t, c)
	a := get(t, g, "/", "X-Forwarded-For: 1.2.3.4")
	if a.status != 200 || a.header.Get("X-RateLimit-Limit") != "10" {
		t.Errorf("got %d %v, want 200 and the limiter's header", a.status, a.header)
	}
	if got := up.one(t).header.Get("X-Forwarded-For"); got != "127.0.0.1" {
		t.Errorf("X-Forwarded-For %q", got)
	}
	// Responses of the gateway itself, behind the limiter, have the limiter's headers too.
	c.Routes[0].Upstreams[0].URL = refusing(t)
	g = start(t, c)
	a = get(t, g, "/")
	wantProblem(t, a, http.StatusBadGateway)
	if a.header.Get("X-RateLimit-Limit") != "10" {
		t.Errorf("the limiter's header is missing: %v", a.header)
	}
}

func TestLimiterWriterWithoutUnwrapIsLogged(t *testing.T) {
	up := newRecorder(t)
	var book logBook
	c := before(up.URL)
	c.Logger = book.logger()
	c.Limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
		})
	}
	g := start(t, c)
	if a := get(t, g, "/"); a.status != http.StatusInternalServerError {
		t.Errorf("status %d, want 500", a.status)
	}
	if !strings.Contains(book.String(), "Unwrap") {
		t.Errorf("the log does not say why:\n%s", &book)
	}
}

// A limiter that drops takes the connection over, and closes it.
func TestLimiterCanDropConnection(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.Limit = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = conn.Close()
		})
	}
	g := start(t, c)
	conn, r := dial(t, g)
	send(t, conn, lines("GET / HTTP/1.1", "Host: a.example"))
	if _, err := r.ReadByte(); err == nil {
		t.Error("something was served")
	}
	await.True(t, "the connection is not counted any more", func() bool { return g.Stats().Conns == 0 })
	if seen := up.taken(); len(seen) > 0 {
		t.Errorf("the upstream saw %+v", seen)
	}
}

// A client that disconnects while the limiter delays it is no error of the service, for any response of the limiter.
func TestDisconnectDuringDelayIsNotAnError(t *testing.T) {
	up := newRecorder(t)
	held := make(chan struct{})
	var book logBook
	c := before(up.URL)
	c.AccessLog = &AccessLog{Logger: book.logger(), Every: 1000}
	c.Limit = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(held)
			<-r.Context().Done()
			w.WriteHeader(http.StatusServiceUnavailable)
		})
	}
	g := start(t, c)
	conn, _ := dial(t, g)
	send(t, conn, lines("GET / HTTP/1.1", "Host: a.example"))
	<-held
	_ = conn.Close()
	await.True(t, "the request is over", func() bool { s := g.Stats(); return s.Requests == 1 && s.InFlight == 0 })
	if s := g.Stats(); s.Responses[5] != 0 || s.Responses[0] != 1 {
		t.Errorf("responses %v, want one that there was none", s.Responses)
	}
	if err := g.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if lines := book.each(t, "request"); len(lines) != 0 {
		t.Errorf("the log has %v, want nothing", lines)
	}
}

// A panic of the limiter ends only its connection.
func TestPanicsEndTheirConnectionAlone(t *testing.T) {
	up := newRecorder(t)
	var book logBook
	c := before(up.URL)
	c.Logger = book.logger()
	c.Limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic("at the disco")
			}
			next.ServeHTTP(w, r)
		})
	}
	g := start(t, c)
	conn, r := dial(t, g)
	send(t, conn, lines("GET /panic HTTP/1.1", "Host: a.example"))
	if rest, err := io.ReadAll(r); len(rest) > 0 {
		t.Errorf("got %q, %v, want the end", rest, err)
	}
	if a := get(t, g, "/"); a.status != 200 {
		t.Errorf("then %d, want 200", a.status)
	}
	await.True(t, "it is counted", func() bool { s := g.Stats(); return s.Aborted == 1 && s.InFlight == 0 })
	if !strings.Contains(book.String(), "at the disco") {
		t.Error("the log does not have the panic")
	}
}

// A client never gets another one's response, nor a request another one's id, however fast they follow each other.
func TestExchangesAreNotMixedUp(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Me")+" "+r.Header.Get("X-Request-Id")+" "+r.RequestURI)
	})
	g := start(t, before(up.URL))
	done := make(chan bool)
	for i := range 8 {
		go func() {
			defer func() { done <- true }()
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for j := range 50 {
				me := itoa(i) + "-" + itoa(j)
				r, err := http.NewRequest(http.MethodGet, urlOf(g)+"/"+me, http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("X-Me", me)
				res, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				body, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if want := me + " " + res.Header.Get("X-Request-Id") + " /" + me; string(body) != want {
					t.Errorf("got %q, want %q", body, want)
				}
			}
		}()
	}
	for range 8 {
		<-done
	}
}
