package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/redistest"
)

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
			s := redistest.NewFake(t, map[string]string{tt.command: tt.reply})
			store, err := tryOpen(t, "redis://"+s.Addr()+"?protocol="+protocol, Options{Secret: testSecret, Logger: (&logbook.Book{}).Logger()})
			if err != nil {
				says(t, err, s.Addr())
				continue
			}
			_ = store.Probe(within(t, time.Second), s.Addr())
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
		s := redistest.NewFake(t, map[string]string{"CLUSTER SLOTS": reply})
		_, err := tryOpen(t, "redis-cluster://"+s.Addr(), Options{Secret: testSecret, Logger: (&logbook.Book{}).Logger()})
		if err == nil {
			t.Errorf("%q is a map", reply)
			continue
		}
		says(t, err, s.Addr())
	}
	for _, reply := range []string{"*0\r\n", ":1\r\n", "*1\r\n+127.0.0.1\r\n", "*2\r\n:1\r\n:2\r\n", "+OK\r\n", "-ERR\r\n", "*2\r\n+127.0.0.1\r\n+1\r\n"} {
		s := redistest.NewFake(t, map[string]string{"SENTINEL": reply})
		if _, err := tryOpen(t, "redis-sentinel://"+s.Addr()+"/m?dial_timeout=100ms", Options{Logger: (&logbook.Book{}).Logger()}); err == nil {
			t.Errorf("%q is a primary", reply)
		}
	}
}

func TestMalformedRepliesNameTheServer(t *testing.T) {
	s := redistest.NewFake(t, nil)
	store := open(t, "redis://"+s.Addr(), Options{Secret: testSecret, Logger: (&logbook.Book{}).Logger()})
	c := headgate.Check{Owner: "alice", Key: "alice", Limit: headgate.PerSecond(10), Cost: 1}
	other := c
	other.Key = "alice's other"
	for _, reply := range []string{"+\r\n", "$3\r\nabc\r\n", "$8\r\n12345678\r\n", "$12\r\n1234567\x01abcd\r\n", ":1\r\n", "*0\r\n", "_\r\n"} {
		s.Set("EVALSHA", reply)
		_, take := store.Take(within(t, unhurried), c)
		_, all := store.TakeAll(within(t, unhurried), []headgate.Check{c, other}, nil)
		_, charge := store.Charge(within(t, unhurried), c)
		for what, err := range map[string]error{"Take": take, "TakeAll": all, "Charge": charge} {
			if err == nil && reply == "$8\r\n12345678\r\n" {
				continue // a state that is empty is one
			}
			var e *ServerError
			if !errors.As(err, &e) || e.Server != s.Addr() || e.Fix == "" {
				t.Errorf("%s, %q: got %v, want the server and the fix", what, reply, err)
			}
		}
	}
}
