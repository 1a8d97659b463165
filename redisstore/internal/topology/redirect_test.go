package topology

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/redistest"
)

// slotsOf is a reply to CLUSTER SLOTS: one server has all slots.
func slotsOf(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", len(host), host, port)
}

func TestRedirectionsInCirclesEnd(t *testing.T) {
	s := redistest.NewFake(t, nil)
	s.Set("CLUSTER SLOTS", slotsOf(s.Addr()))
	c := connect(t, "redis-cluster://"+s.Addr(), Options{Logger: (&logbook.Book{}).Logger()})
	for _, reply := range []string{"-MOVED 1 ADDR\r\n", "-ASK 1 ADDR\r\n", "-TRYAGAIN\r\n", "-CLUSTERDOWN no\r\n", "-MOVED 1 :" + s.Addr()[strings.LastIndexByte(s.Addr(), ':')+1:] + "\r\n"} {
		s.Set("GET", reply)
		begin := time.Now()
		err := c.Do(within(t, 50*time.Millisecond), c.Builder().Get().Key("k").Build()).Error()
		if took := time.Since(begin); err == nil || took > soon {
			t.Errorf("%q: after %v: %v", reply, took, err)
		}
		contains(t, c.Explain(err, s.Addr()), s.Addr())
	}
	for _, reply := range []string{"-MOVED\r\n", "-MOVED 1\r\n", "-MOVED 1 nonsense\r\n", "-ASK\r\n", "-MOVED 1 ?:1\r\n", "-ERR\r\n", "-\r\n"} {
		s.Set("GET", reply)
		err := c.Do(within(t, 50*time.Millisecond), c.Builder().Get().Key("k").Build()).Error()
		if err == nil {
			t.Errorf("%q is not an error", reply)
		}
		contains(t, c.Explain(err, s.Addr()), s.Addr())
	}
	// The redirection leads to a dead server.
	s.Set("GET", "-MOVED 1 "+freeAddr(t)+"\r\n")
	if err := c.Do(within(t, time.Second), c.Builder().Get().Key("k").Build()).Error(); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
	s.Set("GET", "$1\r\n1\r\n")
	if err := c.Do(within(t, time.Second), c.Builder().Get().Key("k").Build()).Error(); err != nil {
		t.Error(err)
	}
}

func TestCallsWithoutDeadlineEndAfterRetryTime(t *testing.T) {
	s := redistest.NewFake(t, map[string]string{"GET": "-LOADING\r\n"})
	c := connect(t, "redis://"+s.Addr(), Options{Logger: (&logbook.Book{}).Logger()})
	if c.retryTime != defaultRetryTime {
		t.Errorf("got %v, want %v", c.retryTime, defaultRetryTime)
	}
	c.retryTime = 200 * time.Millisecond
	begin := time.Now()
	err := c.Do(context.Background(), c.Builder().Get().Key("k").Build()).Error()
	if took := time.Since(begin); err == nil || took > soon {
		t.Errorf("after %v: %v", took, err)
	}
	contains(t, c.Explain(err, s.Addr()), s.Addr(), "still loading")
}
