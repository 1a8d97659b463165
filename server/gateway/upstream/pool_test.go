package upstream

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/await"
)

// pipes is a Dial whose upstreams respond when gate is closed, or at once if gate is nil.
func pipes(t testing.TB, gate <-chan struct{}) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer func() { _ = theirs.Close() }()
			in := bufio.NewReader(theirs)
			for {
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				if gate != nil {
					<-gate
				}
				if _, err := theirs.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")); err != nil {
					return
				}
			}
		}()
		return ours, nil
	}
}

func get(ctx context.Context, p *Pool) (Outcome, error) {
	return p.Forward(ctx, httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), Head{})
}

func TestConnectionsAndWaitingRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		p := newPool(t, Config{Address: "a:80", MaxConns: 3, MaxWaiting: 2, WaitTimeout: time.Minute, HeaderTimeout: time.Hour, Dial: pipes(t, gate)})
		var served sync.WaitGroup
		for range 5 {
			served.Go(func() {
				if _, err := get(t.Context(), p); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if s := p.Stats(); s.Open != 3 || s.Waiting != 2 {
			t.Errorf("got %+v, want 3 open and 2 waiting", s)
		}
		_, err := get(t.Context(), p)
		if fault(err) != FaultBusy || !errors.Is(err, errTooManyWaiting) || status(err) != 503 {
			t.Errorf("the sixth: got %v, want it refused at once with 503", err)
		}
		close(gate)
		served.Wait()
		if s := p.Stats(); s.Dials != 3 || s.Idle != 3 || s.Waiting != 0 {
			t.Errorf("got %+v, want all served by 3 connections", s)
		}
	})
}

func TestWaitTimeoutRefusesRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		p := newPool(t, Config{Address: "a:80", MaxConns: 1, WaitTimeout: 3 * time.Second, HeaderTimeout: time.Hour, Dial: pipes(t, gate)})
		var served sync.WaitGroup
		served.Go(func() {
			if _, err := get(t.Context(), p); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		began := time.Now()
		out, err := get(t.Context(), p)
		if took := time.Since(began); fault(err) != FaultBusy || !errors.Is(err, errWaitTimeout) || !out.Repeatable || took != 3*time.Second {
			t.Errorf("got %+v, %v after %v; want it refused after 3s, repeatable", out, err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		_, err = get(ctx, p)
		if took := time.Since(began); fault(err) != FaultTimeout || took != time.Second {
			t.Errorf("got %v after %v, want the context's end after 1s", err, took)
		}
		if s := p.Stats(); s.Waiting != 0 {
			t.Errorf("%d still wait", s.Waiting)
		}
		close(gate)
		served.Wait()
	})
}

func TestWaitingRequestGetsSlotOfFailedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		gate := make(chan struct{})
		responding := pipes(t, nil)
		p := newPool(t, Config{Address: "a:80", MaxConns: 1, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials++; dials == 1 {
				<-gate
				return nil, errors.New("refused")
			}
			return responding(ctx, network, address)
		}})
		var served sync.WaitGroup
		served.Go(func() {
			if _, err := get(t.Context(), p); fault(err) != FaultDial {
				t.Errorf("the first: got %v, want a fault of dialling", err)
			}
		})
		synctest.Wait()
		served.Go(func() {
			if _, err := get(t.Context(), p); err != nil {
				t.Errorf("the second: %v", err)
			}
		})
		synctest.Wait()
		close(gate)
		served.Wait()
		if s := p.Stats(); s.Open != 1 || s.Idle != 1 {
			t.Errorf("got %+v, want one connection, idle", s)
		}
	})
}

func TestWaitingRequestsAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		p := newPool(t, Config{Address: "a:80", MaxConns: 1, WaitTimeout: time.Hour, HeaderTimeout: time.Hour, Dial: pipes(t, gate)})
		var served sync.WaitGroup
		turns := make(chan int, 5)
		for i := range 5 {
			served.Go(func() {
				if _, err := get(t.Context(), p); err != nil {
					t.Error(err)
				}
				turns <- i
			})
			synctest.Wait()
		}
		for want := range 5 {
			gate <- struct{}{}
			if got := <-turns; got != want {
				t.Errorf("turn %d went to %d", want, got)
			}
		}
		served.Wait()
	})
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Address: "a:80", IdleTimeout: 30 * time.Second, Dial: pipes(t, nil)})
		var served sync.WaitGroup
		gate := make(chan struct{})
		for range 5 {
			served.Go(func() {
				now := time.Now()
				c, err := p.acquire(t.Context(), &now)
				if err != nil {
					t.Error(err)
					return
				}
				<-gate
				c.idleSince = time.Now()
				p.release(c)
			})
		}
		synctest.Wait()
		close(gate)
		served.Wait()
		if s := p.Stats(); s.Open != 5 || s.Idle != 5 {
			t.Errorf("got %+v, want all 5 idle", s)
		}
		time.Sleep(25 * time.Second)
		if s := p.Stats(); s.Idle != 5 {
			t.Errorf("after 25s: got %+v, want 5 idle", s)
		}
		if out, err := get(t.Context(), p); err != nil || !out.Reused {
			t.Errorf("got %+v, %v; want one of them used", out, err)
		}
		time.Sleep(20 * time.Second)
		if s := p.Stats(); s.Idle != 1 || s.Open != 1 {
			t.Errorf("20s later: got %+v, want only that one idle", s)
		}
		time.Sleep(30 * time.Second)
		if s := p.Stats(); s.Open != 0 {
			t.Errorf("30s later: got %+v, want none", s)
		}
	})
}

func TestExpiredIdleConnectionIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Address: "a:80", IdleTimeout: time.Second, Dial: pipes(t, nil)})
		for i := range 3 {
			if out, err := get(t.Context(), p); err != nil || out.Reused {
				t.Errorf("request %d: got %+v, %v; want a new connection", i, out, err)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestIdleConnectionClosedByUpstreamIsRemoved(t *testing.T) {
	end := make(chan struct{})
	u := script(t, func(c *peer, _ int) {
		c.request()
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		<-end
	})
	p := newPool(t, Config{Address: u.address, IdleTimeout: time.Hour})
	if _, err := get(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p.sweep()
	if s := p.Stats(); s.Idle != 1 {
		t.Fatalf("got %+v, want 1 idle", s)
	}
	close(end)
	await.True(t, "the connection is closed", func() bool { p.sweep(); return p.Stats().Open == 0 })
}

func TestClosedPoolRefusesRequestsAndKeepsNoConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		p := newPool(t, Config{Address: "a:80", MaxConns: 2, HeaderTimeout: time.Hour, Dial: pipes(t, gate)})
		var served sync.WaitGroup
		for range 2 {
			served.Go(func() {
				if _, err := get(t.Context(), p); err != nil {
					t.Errorf("under way when it was closed: %v", err)
				}
			})
		}
		synctest.Wait()
		served.Go(func() {
			if _, err := get(t.Context(), p); fault(err) != FaultClosed {
				t.Errorf("waiting when it was closed: got %v", err)
			}
		})
		synctest.Wait()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if _, err := get(t.Context(), p); fault(err) != FaultClosed || status(err) != 503 {
			t.Errorf("after it was closed: got %v", err)
		}
		close(gate)
		served.Wait()
		if s := p.Stats(); s.Open != 0 || s.Idle != 0 || s.Waiting != 0 {
			t.Errorf("got %+v, want nothing left", s)
		}
		if err := p.Close(); err != nil {
			t.Errorf("Close again: got %v, want nil", err)
		}
	})
}

func TestInvalidConfigIsRefusedByField(t *testing.T) {
	for want, c := range map[string]Config{
		`Address ""`:             {},
		`Address "a"`:            {Address: "a"},
		`Address ":80"`:          {Address: ":80"},
		`Address "unix:"`:        {Address: "unix:"},
		"DialTimeout -1ns":       {Address: "a:80", DialTimeout: -1},
		"ExpectTimeout -1ns":     {Address: "a:80", ExpectTimeout: -1},
		"IdleTimeout -1ns":       {Address: "a:80", IdleTimeout: -1},
		"WaitTimeout -1ns":       {Address: "a:80", WaitTimeout: -1},
		"MaxConns -1":            {Address: "a:80", MaxConns: -1},
		"MaxHeaderBytes 100":     {Address: "a:80", MaxHeaderBytes: 100},
		"MaxHeaderBytes 100000":  {Address: "a:80", MaxHeaderBytes: 100_000_000},
		"MaxBufferedBody 100000": {Address: "a:80", MaxBufferedBody: 100_000_000},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want one about %s", err, want)
		}
	}
	for _, c := range []Config{
		{Address: "a:80"}, {Address: "[::1]:80"}, {Address: "unix:/a"}, {Address: "a:80", HeaderTimeout: -1, StallTimeout: -1, MaxWaiting: -1, MaxBufferedBody: -1},
	} {
		if _, err := New(c); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
