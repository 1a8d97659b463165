package redisstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/logbook"
)

// A weirdServer answers commands with whatever a test wants.
type weirdServer struct {
	addr    string
	mu      sync.Mutex
	replies map[string]string // by the command's first words
}

func newWeirdServer(t *testing.T, replies map[string]string) *weirdServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &weirdServer{addr: l.Addr().String(), replies: map[string]string{
		"HELLO":   "%3\r\n+server\r\n+redis\r\n+version\r\n+7.0.0\r\n+proto\r\n:3\r\n",
		"CLIENT":  "+OK\r\n",
		"PING":    "+PONG\r\n",
		"EVAL":    ":1\r\n",
		"INFO":    "+redis_version:7.0.0\r\n",
		"TIME":    "*0\r\n",
		"ROLE":    "*3\r\n+master\r\n:0\r\n*0\r\n",
		"CONFIG":  "*0\r\n",
		"CLUSTER": "-ERR no\r\n",
	}}
	for k, v := range replies {
		s.replies[k] = v
	}
	var running sync.WaitGroup
	var conns sync.Map
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(c, nil)
			running.Go(func() {
				defer func() { _ = c.Close() }()
				s.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		conns.Range(func(c, _ any) bool {
			_ = c.(net.Conn).Close()
			return true
		})
		running.Wait()
	})
	return s
}

func (s *weirdServer) set(command, reply string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies[command] = reply
}

func (s *weirdServer) serve(c net.Conn) {
	r := bufio.NewReader(c)
	line := func() (string, error) {
		l, err := r.ReadString('\n')
		return strings.TrimRight(l, "\r\n"), err
	}
	for {
		head, err := line()
		if err != nil {
			return
		}
		n, _ := strconv.Atoi(strings.TrimPrefix(head, "*"))
		var args []string
		for range n {
			size, err := line()
			if err != nil {
				return
			}
			length, _ := strconv.Atoi(strings.TrimPrefix(size, "$"))
			b := make([]byte, length+2)
			if _, err := io.ReadFull(r, b); err != nil {
				return
			}
			args = append(args, string(b[:length]))
		}
		if _, err := io.WriteString(c, s.reply(args)); err != nil {
			return
		}
	}
}

func (s *weirdServer) reply(args []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for words := len(args); words > 0; words-- {
		if r, ok := s.replies[strings.ToUpper(strings.Join(args[:words], " "))]; ok {
			return strings.ReplaceAll(r, "ADDR", s.addr)
		}
	}
	return "+OK\r\n"
}

// slotsOf is an answer to CLUSTER SLOTS: all are at one server.
func slotsOf(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", len(host), host, port)
}

func TestWeirdRepliesAreErrors(t *testing.T) {
	for _, tt := range []struct{ command, reply string }{
		{"INFO", ":5\r\n"},
		{"INFO", "*1\r\n:5\r\n"},
		{"INFO", "_\r\n"},
		{"INFO", "+\r\n"},
		{"EVAL", "-\r\n"},
		{"EVAL", "-MOVED\r\n"},
		{"TIME", "*2\r\n+a\r\n+b\r\n"},
		{"TIME", ":1\r\n"},
		{"TIME", "*2\r\n*0\r\n*0\r\n"},
		{"HELLO", "+OK\r\n"},
		{"HELLO", "*0\r\n"},
		{"HELLO", "%0\r\n"},
		{"HELLO", "-ERR\r\n"},
		{"HELLO", "HTTP/1.1 400 Bad Request\r\n\r\n"},
		{"PING", "$-1\r\n"},
		{"PING", "*0\r\n"},
	} {
		for _, protocol := range []string{"2", "3"} {
			s := newWeirdServer(t, map[string]string{tt.command: tt.reply})
			store, err := tryOpen(t, "redis://"+s.addr+"?protocol="+protocol, Options{Secret: testSecret, Logger: (&logbook.Book{}).Logger()})
			if err != nil {
				says(t, err, s.addr)
				continue
			}
			_ = store.Probe(within(t, time.Second), s.addr)
			_, _ = store.Health(within(t, time.Second))
		}
	}
}

func TestWeirdMapsAreErrors(t *testing.T) {
	for _, reply := range []string{
		"*0\r\n", ":1\r\n", "_\r\n", "$-1\r\n", "+OK\r\n", "-ERR\r\n", "-\r\n",
		"*1\r\n:1\r\n", "*1\r\n*0\r\n", "*1\r\n*3\r\n:0\r\n:16383\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:16383\r\n*0\r\n",
		"*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n+h\r\n:1\r\n", "*1\r\n*3\r\n:-1\r\n:5\r\n*2\r\n+h\r\n:1\r\n", "*1\r\n*3\r\n:9\r\n:5\r\n*2\r\n+h\r\n:1\r\n",
		"*1\r\n*3\r\n+a\r\n+b\r\n*2\r\n+h\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n+?\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n:1\r\n+h\r\n",
	} {
		s := newWeirdServer(t, map[string]string{"CLUSTER SLOTS": reply})
		_, err := tryOpen(t, "redis-cluster://"+s.addr, Options{Secret: testSecret, Logger: (&logbook.Book{}).Logger()})
		if err == nil {
			t.Errorf("%q is a map", reply)
			continue
		}
		says(t, err, s.addr)
	}
	for _, reply := range []string{"*0\r\n", ":1\r\n", "*1\r\n+127.0.0.1\r\n", "*2\r\n:1\r\n:2\r\n", "+OK\r\n", "-ERR\r\n", "*2\r\n+127.0.0.1\r\n+1\r\n"} {
		s := newWeirdServer(t, map[string]string{"SENTINEL": reply})
		if _, err := tryOpen(t, "redis-sentinel://"+s.addr+"/m?dial_timeout=100ms", Options{Logger: (&logbook.Book{}).Logger()}); err == nil {
			t.Errorf("%q is a primary", reply)
		}
	}
}

func TestServersThatPointInCirclesAreGivenUp(t *testing.T) {
	s := newWeirdServer(t, nil)
	s.set("CLUSTER SLOTS", slotsOf(s.addr))
	store := open(t, "redis-cluster://"+s.addr, Options{Secret: testSecret, Logger: (&logbook.Book{}).Logger()})
	c := store.conn
	for _, reply := range []string{"-MOVED 1 ADDR\r\n", "-ASK 1 ADDR\r\n", "-TRYAGAIN\r\n", "-CLUSTERDOWN no\r\n", "-MOVED 1 :" + s.addr[strings.LastIndexByte(s.addr, ':')+1:] + "\r\n"} {
		s.set("GET", reply)
		begin := time.Now()
		err := c.do(within(t, 50*time.Millisecond), c.b().Get().Key("k").Build()).Error()
		if took := time.Since(begin); err == nil || took > soon {
			t.Errorf("%q: after %v: %v", reply, took, err)
		}
		says(t, c.explain(err, s.addr), s.addr)
	}
	for _, reply := range []string{"-MOVED\r\n", "-MOVED 1\r\n", "-MOVED 1 nonsense\r\n", "-ASK\r\n", "-MOVED 1 ?:1\r\n", "-ERR\r\n", "-\r\n"} {
		s.set("GET", reply)
		err := c.do(within(t, 50*time.Millisecond), c.b().Get().Key("k").Build()).Error()
		if err == nil {
			t.Errorf("%q is no error", reply)
		}
		says(t, c.explain(err, s.addr), s.addr)
	}
	// Where it points to is dead.
	s.set("GET", "-MOVED 1 "+freeAddr(t)+"\r\n")
	if err := c.do(within(t, time.Second), c.b().Get().Key("k").Build()).Error(); !errors.Is(err, ErrAway) {
		t.Errorf("got %v, want ErrAway", err)
	}
	s.set("GET", "$1\r\n1\r\n")
	if err := c.do(within(t, time.Second), c.b().Get().Key("k").Build()).Error(); err != nil {
		t.Error(err)
	}
}

func TestAnswersThatAreNoneNameTheServer(t *testing.T) {
	s := newWeirdServer(t, nil)
	store := open(t, "redis://"+s.addr, Options{Secret: testSecret, Logger: (&logbook.Book{}).Logger()})
	c := headgate.Check{Owner: "alice", Key: "alice", Limit: headgate.PerSecond(10), Cost: 1}
	other := c
	other.Key = "alice's other"
	for _, reply := range []string{"+\r\n", "$3\r\nabc\r\n", "$8\r\n12345678\r\n", "$12\r\n1234567\x01abcd\r\n", ":1\r\n", "*0\r\n", "_\r\n"} {
		s.set("EVALSHA", reply)
		_, take := store.Take(within(t, unhurried), c)
		_, all := store.TakeAll(within(t, unhurried), []headgate.Check{c, other}, nil)
		_, charge := store.Charge(within(t, unhurried), c)
		for what, err := range map[string]error{"Take": take, "TakeAll": all, "Charge": charge} {
			if err == nil && reply == "$8\r\n12345678\r\n" {
				continue // a state that is empty is one
			}
			var e *ServerError
			if !errors.As(err, &e) || e.Server != s.addr || e.Cure == "" {
				t.Errorf("%s, %q: got %v, want the server and the cure", what, reply, err)
			}
		}
	}
}

func TestWithoutDeadlineServersAreNotAskedForEver(t *testing.T) {
	s := newWeirdServer(t, map[string]string{"GET": "-LOADING\r\n"})
	store := open(t, "redis://"+s.addr, Options{Secret: testSecret, Logger: (&logbook.Book{}).Logger()})
	if store.conn.trying != maxTrying {
		t.Errorf("got %v, want %v", store.conn.trying, maxTrying)
	}
	store.conn.trying = 200 * time.Millisecond
	begin := time.Now()
	err := store.conn.do(context.Background(), store.conn.b().Get().Key("k").Build()).Error()
	if took := time.Since(begin); err == nil || took > soon {
		t.Errorf("after %v: %v", took, err)
	}
	says(t, store.conn.explain(err, s.addr), s.addr, "still loading")
}
