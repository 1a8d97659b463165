package downstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

func TestContextEndsWhenClientDisconnects(t *testing.T) {
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
				await.True(t, "the connection is over", func() bool { return s.ended.get() == 1 })
			})
		}
	}
}

func TestRequestsHaveTheirOwnContexts(t *testing.T) {
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
	await.True(t, "there is hardly a goroutine more", func() bool { return runtime.NumGoroutine() <= before+1 })
}

func TestLateUseOfContextIsHarmless(t *testing.T) {
	contexts := make(chan context.Context, 10)
	s := start(t, func(_ http.ResponseWriter, r *http.Request) { contexts <- r.Context() })
	c, r := dial(t, s.addr)
	for range 5 {
		send(t, c, get("/"))
		receive(t, r, "GET")
		_ = (<-contexts).Done() // of a request that has ended
	}
}

func TestBytesReadByWatchAreTheNextRequest(t *testing.T) {
	seen := make(chan string, 3)
	second := make(chan struct{})
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			_ = r.Context().Done()
			wait(t, "the second request is sent", second)
			// The watcher may have read half of the next request.
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
