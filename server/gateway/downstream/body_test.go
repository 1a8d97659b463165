package downstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

func TestUnreadBodyIsNotParsedAsRequest(t *testing.T) {
	evil := get("/evil")
	for _, c := range []struct {
		name  string
		early int  // bytes that are sent at once
		size  int  // of the body
		goes  bool // the connection can be reused
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

func TestTruncatedBodyIsAnError(t *testing.T) {
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

func TestBodyCanBeReadWhileResponseIsWritten(t *testing.T) {
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
	res := make(chan clientResponse, 1)
	send(t, c, "a")
	if _, err := r.Peek(1); err != nil {
		t.Fatal(err) // there is a response before the body is complete
	}
	go func() { res <- receive(t, r, "POST") }()
	send(t, c, "bc")
	if a := wait(t, "the response", res); a.body != "abc" {
		t.Errorf("got %q, want abc", a.body)
	}
}

func TestHandlerDeadlineBoundsBodyRead(t *testing.T) {
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

func TestDeadlineIsSetOnlyIfReadingTheBodyMayWait(t *testing.T) {
	for name, tt := range map[string]struct {
		body string // of 3 bytes, as it arrives with the head
		from time.Duration
		want bool
	}{
		"arrived":                     {"abc", time.Minute, false},
		"in part":                     {"ab", time.Minute, true},
		"arrived, past deadline":      {"abc", -time.Minute, true},
		"none arrived, past deadline": {"", -time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			set := make(chan bool, 1)
			s := start(t, func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(tt.from))
				set <- w.(*response).conn.deadline.byHandler.Load()
				_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
				_, _ = io.ReadAll(r.Body)
			})
			c, r := dial(t, s.addr)
			send(t, c, lines("POST / HTTP/1.1", "Host: x", "Content-Length: 3")+tt.body)
			if got := wait(t, "the handler", set); got != tt.want {
				t.Errorf("the deadline was set: %t, want %t", got, tt.want)
			}
			send(t, c, "abc"[len(tt.body):])
			for range 2 {
				if a := receive(t, r, "POST"); a.status != 200 {
					t.Errorf("status %d", a.status)
				}
				send(t, c, lines("POST / HTTP/1.1", "Host: x", "Content-Length: 3")+"abc")
				<-set
			}
		})
	}
}

func TestClientThatDoesNotReadIsDisconnected(t *testing.T) {
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
	await.True(t, "the connection is over", func() bool { return s.ended.get() == 1 })
}
