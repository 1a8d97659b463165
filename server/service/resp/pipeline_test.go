package resp_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/service/resp"
)

// A pipeListener returns connections that are not sockets. Write returns when the data was read.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial(t *testing.T) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close() })
	if err := ours.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	l.conns <- theirs
	return &client{Conn: ours, t: t, r: bufio.NewReader(ours)}
}

func TestCommandMayArriveInPieces(t *testing.T) {
	whole := encode("CL.THROTTLE", "alice", "1000000", "1000", "1") + encode("ECHO", "a\r\nb")
	pieces := func(t *testing.T, dial func() *client) {
		for cut := 1; cut < len(whole); cut++ {
			c := dial()
			var sent sync.WaitGroup
			sent.Go(func() {
				c.send(whole[:cut])
				c.send(whole[cut:])
			})
			got := fmt.Sprint(strings.HasPrefix(c.read(), "0 1000001 "), " ", c.read())
			sent.Wait()
			if want := "true a\r\nb"; got != want {
				t.Fatalf("cut at %d: got %q, want %q", cut, got, want)
			}
			c.hangUp()
		}
	}
	t.Run("on a socket", func(t *testing.T) {
		s := serve(t, onMemory(t, memstore.Options{}))
		pieces(t, func() *client { return dial(t, s.address) })
	})
	t.Run("elsewhere", func(t *testing.T) {
		s, err := resp.New(onMemory(t, memstore.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		l := newPipeListener()
		serveOn(t, s, l)
		pieces(t, func() *client { return l.dial(t) })
	})
}

func TestPipelineRepliesAreInOrder(t *testing.T) {
	const n = 5000 // more than any buffer holds
	c := dial(t, serve(t, onMemory(t, memstore.Options{})).address)
	var b strings.Builder
	for i := range n {
		b.WriteString(encode("ECHO", fmt.Sprint(i)))
		b.WriteString(encode("CL.THROTTLE", "alice", fmt.Sprint(n-1), "1", "3600"))
	}
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write([]byte(b.String()))
		sent <- err
	}()
	for i := range n {
		if got := c.read(); got != fmt.Sprint(i) {
			t.Fatalf("answer %d: got %q", i, got)
		}
		if got, want := c.read(), fmt.Sprintf("0 %d %d -1 ", n, n-1-i); !strings.HasPrefix(got, want) {
			t.Fatalf("decision %d: got %q, want %q", i, got, want)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// A slowStore decides in memory but is not an engine.Borrower.
type slowStore struct {
	*memstore.Store
	pause time.Duration
	hook  func(ctx context.Context, key string) error
}

func (s *slowStore) BorrowsKeys(notOne struct{}) {}

func (s *slowStore) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	time.Sleep(s.pause)
	if s.hook != nil {
		if err := s.hook(ctx, c.Key); err != nil {
			return headgate.Decision{}, err
		}
	}
	return s.Store.Take(ctx, c)
}

func TestRemoteDecisionsOfAPipelineAreConcurrent(t *testing.T) {
	const n = 100
	var all sync.WaitGroup // all decisions must be in progress before one returns
	all.Add(n)
	together := make(chan struct{})
	go func() { all.Wait(); close(together) }()
	store := &slowStore{Store: newStore(t, memstore.Options{}), hook: func(ctx context.Context, _ string) error {
		all.Done()
		select {
		case <-together:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	c := dial(t, serve(t, onRedis(t, store)).address)
	var b strings.Builder
	for i := range n {
		b.WriteString(encode("CL.THROTTLE", fmt.Sprint("key-", i), fmt.Sprint(i), "1", "3600"))
	}
	c.send(b.String() + "PING\r\n")
	for i := range n {
		if got, want := c.read(), fmt.Sprintf("0 %d %d -1 3600", i+1, i); got != want {
			t.Errorf("answer %d: got %q, want %q", i, got, want)
		}
	}
	if got := c.read(); got != "PONG" {
		t.Errorf("got %q behind them, want PONG", got)
	}
}

func TestRemoteDecisionsHaveADeadline(t *testing.T) {
	const textBusy = "BUSY overloaded, retry after 1 second"
	store := &slowStore{Store: newStore(t, memstore.Options{}), hook: func(ctx context.Context, key string) error {
		if strings.Contains(key, "hangs") {
			<-ctx.Done()
		}
		return ctx.Err()
	}}
	config := onRedis(t, store)
	config.Limits.DecideTimeout, config.Limits.InFlight = time.Second/2, 1
	c := dial(t, serve(t, config).address)
	one := encode("CL.THROTTLE", "hangs", "1", "1", "60")
	c.send(one + one + one) // the third waits for the second to land
	for range 3 {
		if got := c.read(); got != textBusy {
			t.Errorf("got %q, want %q", got, textBusy)
		}
	}
	// No policy decides: overload must not switch limits off.
	c.send(one + one + encode("HG.TAKE", "per-user", "alice") + encode("HG.TAKE", "careful", "alice"))
	for range 4 {
		if got := c.read(); got != textBusy {
			t.Errorf("got %q, want %q", got, textBusy)
		}
	}
	c.wants("0 2 1 -1 60", "CL.THROTTLE", "answers", "1", "1", "60")
}

func TestRedisDecidesForAll(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	const hosts, each, limit = 2, 200, 150
	var wait sync.WaitGroup
	var mu sync.Mutex
	passed := map[string]int{}
	for range hosts {
		c := dial(t, serve(t, onRedis(t, openRedis(t, server, redisstore.Options{}))).address)
		wait.Go(func() {
			c.send(strings.Repeat(encode("CL.THROTTLE", "hot", fmt.Sprint(limit-1), "1", "86400")+encode("HG.TAKE", "per-user", "alice"), each))
			for range each {
				throttled, taken := c.read(), c.read()
				mu.Lock()
				passed["throttle "+throttled[:1]]++
				passed["take "+taken[:1]]++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if passed["throttle 0"] != limit || passed["take 1"] != 5 {
		t.Errorf("got %v, want %d of throttle 0 and 5 of take 1", passed, limit)
	}
}

// On one CPU, connections yield to each other between decision and reply.
func TestConnectionsGetTheirOwnRepliesOnOneCPU(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := serve(t, onMemory(t, memstore.Options{}))
	var group sync.WaitGroup
	for i := range 20 {
		c := dial(t, s.address)
		group.Go(func() {
			key := fmt.Sprint("client", i)
			for left := 40; left > 0; left-- {
				want := fmt.Sprintf("0 41 %d -1 ", left)
				if got := c.do("CL.THROTTLE", key, "40", "1", "3600"); !strings.HasPrefix(got, want) {
					t.Errorf("%s: got %q, want it to begin %q", key, got, want)
					return
				}
			}
			c.send(encode("ECHO", key) + encode("ECHO", "and more"))
			if got, want := c.read()+" "+c.read(), key+" and more"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	group.Wait()
}
