package downstream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/turns"
)

// pipes is a listener for in-process connections that use the test's time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

const (
	headerTime = 10 * time.Second
	idleTime   = time.Minute
)

// inTime runs a client and a server that use the test's time.
func inTime(t *testing.T, do func(t *testing.T, c net.Conn, r *bufio.Reader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "ok")
		})
		s := &Server{Handler: h, NetHTTP: &http.Server{Handler: h}, HeaderTimeout: headerTime, IdleTimeout: idleTime}
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		client, server := net.Pipe()
		l.conns <- server
		do(t, client, bufio.NewReader(client))
		_ = client.Close()
		_ = s.Close()
		<-done
	})
}

// wantEndAfter checks when the server closes the connection.
func wantEndAfter(t *testing.T, r *bufio.Reader, want time.Duration) {
	t.Helper()
	begun := time.Now()
	if b, err := r.Peek(1); err == nil {
		t.Errorf("got %q, want the end", b)
	}
	if took := time.Since(begun).Round(time.Microsecond); took != want {
		t.Errorf("closed after %v, want %v", took, want)
	}
}

func wantServed(t *testing.T, c net.Conn, r *bufio.Reader) {
	t.Helper()
	send(t, c, get("/"))
	if a := receive(t, r, "GET"); a.body != "ok" {
		t.Errorf("got %+v", a)
	}
}

func TestSilentConnectionIsClosed(t *testing.T) {
	inTime(t, func(t *testing.T, _ net.Conn, r *bufio.Reader) { wantEndAfter(t, r, headerTime) })
}

func TestUnfinishedHeaderTimesOut(t *testing.T) {
	inTime(t, func(t *testing.T, c net.Conn, r *bufio.Reader) {
		time.Sleep(time.Second)
		send(t, c, "GET / HTTP/1.1\r\nHost: x\r\n")
		wantEndAfter(t, r, headerTime-time.Second)
	})
}

func TestSlowHeaderHasOneTimeout(t *testing.T) {
	for name, first := range map[string]bool{"first": true, "second": false} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, c net.Conn, r *bufio.Reader) {
				if !first {
					wantServed(t, c, r)
					time.Sleep(idleTime / 2)
				}
				begun := time.Now()
				for {
					if _, err := io.WriteString(c, "G"); err != nil {
						break
					}
					time.Sleep(time.Second)
				}
				if took := time.Since(begun); took < headerTime || took > headerTime+time.Second {
					t.Errorf("closed after %v, want %v", took, headerTime)
				}
			})
		})
	}
}

// The deadline of the header passes meanwhile, without effect.
func TestIdleTimeoutClosesConnection(t *testing.T) {
	inTime(t, func(t *testing.T, c net.Conn, r *bufio.Reader) {
		for range 5 {
			wantServed(t, c, r)
			time.Sleep(idleTime - time.Millisecond)
		}
		wantServed(t, c, r)
		wantEndAfter(t, r, idleTime)
	})
}

func TestHeaderTimeoutStartsAfterIdleWait(t *testing.T) {
	inTime(t, func(t *testing.T, c net.Conn, r *bufio.Reader) {
		wantServed(t, c, r)
		time.Sleep(idleTime - time.Second)
		text := get("/")
		send(t, c, text[:10])
		time.Sleep(headerTime - time.Second)
		send(t, c, text[10:])
		if a := receive(t, r, "GET"); a.body != "ok" {
			t.Errorf("got %+v", a)
		}
		wantEndAfter(t, r, idleTime)
	})
}

// While the cores are busy, a connection waits for its turn before its request is served, and keeps nothing of it.
func TestConnectionsTakeTurnsWhileTheCoresAreBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Turns: new(turns.Queue), NetHTTP: &http.Server{}}
		for range 10 {
			s.Turns.Adjust(1)
		}
		limit := s.Turns.Stats().Limit
		serving, finish := make(chan struct{}, 2*limit), make(chan struct{})
		s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/first" {
				serving <- struct{}{}
				<-finish
			}
			_, _ = io.WriteString(w, "ok")
		})
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		clients := make([]net.Conn, limit+1)
		for i := range clients {
			var server net.Conn
			clients[i], server = net.Pipe()
			l.conns <- server
			send(t, clients[i], get("/first")) // a first request takes no turn
			receive(t, bufio.NewReader(clients[i]), "GET")
			send(t, clients[i], get("/"))
			synctest.Wait()
		}
		if got := len(serving); got != limit {
			t.Errorf("%d requests are served, want %d", got, limit)
		}
		close(finish) // the first turns end with their requests
		for i, c := range clients {
			if a := receive(t, bufio.NewReader(c), "GET"); a.body != "ok" {
				t.Errorf("connection %d: got %+v, want ok", i, a)
			}
			_ = c.Close()
		}
		synctest.Wait()
		if st := s.Turns.Stats(); st.Waits != 1 || st.Waiting != 0 {
			t.Errorf("got %+v, want one wait, and no connection waiting", st)
		}
		_ = s.Close()
		<-done
	})
}

// The request of a client that always sends the next one at once is not read before the turn of its connection.
func TestRequestsOfPromptClientsAreReadInTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Turns: new(turns.Queue), NetHTTP: &http.Server{}}
		s.Turns.Adjust(1)
		finish := make(chan struct{})
		s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-finish
			}
			_, _ = io.WriteString(w, "ok")
		})
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		ask := func(client net.Conn) {
			send(t, client, get("/"))
			receive(t, bufio.NewReader(client), "GET")
			synctest.Wait()
		}
		connect := func() net.Conn {
			client, server := net.Pipe()
			l.conns <- server
			ask(client) // a first request takes no turn
			return client
		}
		prompt := connect()
		ask(prompt) // it is not known yet whether this one was prompt
		inTurn := 0
		for ask(prompt); s.Turns.Stats().Active == 1; ask(prompt) {
			inTurn++
		}
		for range inTurn {
			ask(prompt)
		}
		clients := []net.Conn{prompt}
		for i := range s.Turns.Stats().Limit { // they use the other turns, and one waits for that of the prompt client
			clients = append(clients, connect())
			send(t, clients[i+1], get("/slow"))
		}
		ask(prompt) // the last request of its turn
		sent := make(chan struct{})
		go func() {
			send(t, prompt, get("/")) // returns when it is read
			close(sent)
		}()
		synctest.Wait()
		select {
		case <-sent:
			t.Error("the request is read before its turn")
		default:
		}
		close(finish)
		for _, c := range clients {
			receive(t, bufio.NewReader(c), "GET")
			_ = c.Close()
		}
		<-sent
		_ = s.Close()
		<-done
	})
}

// A connection that goes to net/http does not keep its turn.
func TestConnectionsOfNetHTTPHaveNoTurn(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }, func(s *Server) {
		s.Turns = new(turns.Queue)
		s.Turns.Adjust(1)
	})
	for range 3 {
		c, r := dial(t, s.addr)
		send(t, c, get("/"))
		if a := receive(t, r, "GET"); a.body != "ok" {
			t.Errorf("got %+v, want ok", a)
		}
		send(t, c, lines("POST / HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", "Connection: close", "", "0", "", ""))
		if a := receive(t, r, "POST"); a.body != "ok" {
			t.Errorf("got %+v, want ok", a)
		}
	}
	if got := s.Turns.Stats().Active; got != 0 {
		t.Errorf("%d turns are left, want 0", got)
	}
}
