package redistest

import (
	"bufio"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A Fake is a server that sends replies that a test has chosen, to test how clients handle them.
type Fake struct {
	addr    string
	mu      sync.Mutex
	replies map[string]string // by the first words of a command
}

// NewFake starts a Fake with replies by the first words of a command, in upper case. ADDR in a reply is replaced by
// the server's address. Other commands get the reply of a primary of Redis 7, or OK.
func NewFake(t testing.TB, replies map[string]string) *Fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Fake{addr: l.Addr().String(), replies: map[string]string{
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
	maps.Copy(f.replies, replies)
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
				f.serve(c)
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
	return f
}

// Addr returns the server's address.
func (f *Fake) Addr() string { return f.addr }

// Set sets the reply to commands that begin with the given words, in upper case.
func (f *Fake) Set(command, reply string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replies[command] = reply
}

func (f *Fake) serve(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		if _, err := io.WriteString(c, f.reply(args)); err != nil {
			return
		}
	}
}

// readCommand reads an array of bulk strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	number := func(prefix string) (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimPrefix(strings.TrimRight(line, "\r\n"), prefix))
	}
	n, err := number("*")
	if err != nil {
		return nil, err
	}
	var args []string
	for range n {
		size, err := number("$")
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args = append(args, string(b[:size]))
	}
	return args, nil
}

func (f *Fake) reply(args []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for words := len(args); words > 0; words-- {
		if r, ok := f.replies[strings.ToUpper(strings.Join(args[:words], " "))]; ok {
			return strings.ReplaceAll(r, "ADDR", f.addr)
		}
	}
	return "+OK\r\n"
}
