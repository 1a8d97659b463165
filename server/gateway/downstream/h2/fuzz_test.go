package h2

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// sortedFields returns fields as text.
func sortedFields(fields map[string]string) string {
	var all []string
	for name, value := range fields {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// For any input, requests that reach a handler are valid, and the connection and its handlers end with the input.
func FuzzConn(f *testing.F) {
	seed := func(frames ...[]byte) {
		all := appendSettings([]byte(http2.ClientPreface))
		for _, one := range frames {
			all = append(all, one...)
		}
		f.Add(all)
	}
	encoder := newClient(f, nil)
	get, post := encoder.encode(getFields()...), encoder.encode(postFields("content-length", "5", "cookie", "a=b")...)
	seed(appendBlock(nil, 1, get, true))
	seed(appendBlock(nil, 1, post, false), appendData(nil, 1, []byte("hello"), true))
	seed(appendBlock(nil, 1, get, true), appendReset(nil, 1, http2.ErrCodeCancel), appendPing(nil, 0, pingData))
	seed(appendBlock(nil, 1, post, false), appendWindowUpdate(nil, 1, 100), appendGoAway(nil, 0, 0))
	seed(appendSettingsAck(nil), appendBlock(nil, 3, make([]byte, 20_000), true))
	f.Fuzz(func(t *testing.T, input []byte) {
		s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "" || r.URL == nil || strings.ContainsAny(r.Host+r.RequestURI+r.Method, "\r\n\x00") {
				t.Errorf("got request %q %q %q", r.Method, r.RequestURI, r.Host)
			}
			for name, values := range r.Header {
				text := strings.Join(values, "")
				if name == "" || strings.ContainsAny(name, "\r\n\x00: ") || strings.ContainsAny(text, "\r\n\x00") {
					t.Errorf("got field %q: %q", name, values)
				}
			}
			_, _ = io.Copy(w, r.Body)
		})
		near, far := net.Pipe()
		conn := s.NewConn(Link{Conn: far, States: new(states)})
		served := make(chan struct{})
		go func() {
			defer close(served)
			conn.Serve()
		}()
		go func() { _, _ = io.Copy(io.Discard, near) }()
		_ = near.SetDeadline(time.Now().Add(patience))
		_, _ = near.Write(input) // fails if the connection has ended
		_ = near.Close()
		select {
		case <-served:
		case <-time.After(patience):
			stacks := make([]byte, 1<<20)
			t.Fatalf("the connection has not ended:\n%s", stacks[:runtime.Stack(stacks, true)])
		}
	})
}
