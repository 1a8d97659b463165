package footprint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

const (
	slowConns     = 10_000
	maxSlowMemory = 300_000_000 // bytes of resident memory
	maxSlowRatio  = 1.2         // of p99 with slow connections to p99 without
	honestConns   = 4
	honestPace    = 2 * time.Millisecond // between two requests on a connection
	slowSlices    = 5                    // of a second each; the median of their p99 counts
)

// A slowListener is a listener under attack. A slow connection sends drip byte by byte; an honest client asks.
type slowListener struct {
	name string
	addr func(*running) string
	drip string
	dial func(addr string) (ask func() error, closeConn func(), err error)
}

var slowListeners = []slowListener{
	{"gateway", func(p *running) string { return p.gateway }, "GET / HTTP/1.1\r\nX: " + strings.Repeat("a", 100), dialHTTP("/")},
	{"api", func(p *running) string { return p.api }, "GET / HTTP/1.1\r\nX: " + strings.Repeat("a", 100), dialHTTP("/v1/forward-auth")},
	{"admin", func(p *running) string { return p.admin }, "GET / HTTP/1.1\r\nX: " + strings.Repeat("a", 100), dialHTTP("/healthz")},
	{"grpc", func(p *running) string { return p.grpc }, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\x00", 100), dialGRPC},
	{"resp", func(p *running) string { return p.resp }, "*1\r\n$100\r\n" + strings.Repeat("a", 100), dialRESP},
}

// TestSoakSlowConnections opens 10,000 connections to one listener at a time, half of them idle and half of them slow,
// from one address and from many. Honest clients must hardly notice, and memory stays bounded.
func TestSoakSlowConnections(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("set HEADGATE_SOAK=1, as make soak does")
	}
	binary := os.Getenv("HEADGATE_SOAK_BINARY")
	if binary == "" {
		binary = build(t, "CGO_ENABLED=0")
	}
	one := func(int) string { return "127.9.9.9" }
	many := func(i int) string { return fmt.Sprintf("127.1.%d.%d", i/250, 1+i%250) }
	for _, l := range slowListeners {
		t.Run(l.name+" from one address", func(t *testing.T) { attackSlowly(t, binary, l, one) })
		t.Run(l.name+" from many addresses", func(t *testing.T) { attackSlowly(t, binary, l, many) })
	}
}

func attackSlowly(t *testing.T, binary string, l slowListener, source func(i int) string) {
	p := startProgram(t, binary)
	awaitOK(t, p.gateway)
	before := honestP99(t, l, l.addr(p))
	a := startAttack(t, l.addr(p), l.drip, source)
	during := honestP99(t, l, l.addr(p))
	rss, open := resident(t, p.pid), a.stop()
	ratio := float64(during) / float64(before)
	t.Logf("p99 %v, with slow connections %v: %.2f ×; %.0f MB resident; %d of %d connections open at the end", before, during,
		ratio, float64(rss)/1e6, open, slowConns)
	if ratio > maxSlowRatio {
		t.Errorf("p99 is %.2f × that without slow connections, want at most %.1f", ratio, maxSlowRatio)
	}
	if rss > maxSlowMemory {
		t.Errorf("%.0f MB resident, want at most %d", float64(rss)/1e6, maxSlowMemory/1_000_000)
	}
}

// honestP99 returns the p99 of the time of honest requests, on connections of their own.
func honestP99(t *testing.T, l slowListener, addr string) time.Duration {
	t.Helper()
	var list []time.Duration
	for range slowSlices {
		var (
			mu    sync.Mutex
			times []time.Duration
			group sync.WaitGroup
		)
		until := time.Now().Add(time.Second)
		for range honestConns {
			group.Go(func() {
				took, err := askUntil(l, addr, until)
				if err != nil {
					t.Errorf("an honest client of %s: %v", l.name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				times = append(times, took...)
			})
		}
		group.Wait()
		if len(times) == 0 {
			t.Fatal("no honest request was answered")
		}
		slices.Sort(times)
		list = append(list, times[len(times)*99/100])
	}
	slices.Sort(list)
	return list[len(list)/2]
}

func askUntil(l slowListener, addr string, until time.Time) (took []time.Duration, err error) {
	ask, closeConn, err := l.dial(addr)
	if err != nil {
		return nil, err
	}
	defer closeConn()
	if err := ask(); err != nil { // the first request of a connection may need its handshake
		return nil, err
	}
	tick := time.NewTicker(honestPace)
	defer tick.Stop()
	for time.Now().Before(until) {
		<-tick.C
		began := time.Now()
		if err := ask(); err != nil {
			return took, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

func dialHTTP(path string) func(addr string) (func() error, func(), error) {
	return func(addr string) (func() error, func(), error) {
		client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
		ask := func() error {
			response, err := client.Get("http://" + addr + path)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close() // it was only read
			if err == nil && response.StatusCode != http.StatusOK && response.StatusCode != http.StatusTooManyRequests {
				err = fmt.Errorf("status %s", response.Status)
			}
			return err
		}
		return ask, client.CloseIdleConnections, nil
	}
}

func dialGRPC(addr string) (func() error, func(), error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, nil, err
	}
	client := grpc_health_v1.NewHealthClient(conn)
	ask := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err
	}
	return ask, func() { _ = conn.Close() }, nil
}

func dialRESP(addr string) (func() error, func(), error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	reader := bufio.NewReader(conn)
	ask := func() error {
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return err
		}
		if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
			return err
		}
		reply, err := reader.ReadString('\n')
		if err == nil && reply != "+PONG\r\n" {
			err = fmt.Errorf("got %q", reply)
		}
		return err
	}
	return ask, func() { _ = conn.Close() }, nil
}

// An attack keeps many connections open. Every other one sends a byte from time to time, the rest nothing.
type attack struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	conns  []net.Conn
	open   int
}

// startAttack returns when all connections were opened once. Those that the program closes are opened again.
func startAttack(t *testing.T, addr, drip string, source func(i int) string) *attack {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := &attack{cancel: cancel, conns: make([]net.Conn, slowConns)}
	dial := func(i int) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source(i))}, Timeout: 2 * time.Second}
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			a.conns[i] = conn
		}
	}
	for i := range a.conns {
		dial(i)
	}
	a.group.Go(func() {
		const round = 5 * time.Second // in which each slow connection sends a byte
		tick := time.NewTicker(round / 500)
		defer tick.Stop()
		for sent := 0; ctx.Err() == nil; sent++ {
			for i := sent * slowConns / 500 % slowConns; i < (sent%500+1)*slowConns/500; i++ {
				if a.conns[i] == nil || isClosed(a.conns[i]) {
					if a.conns[i] != nil {
						_ = a.conns[i].Close() // the program has closed it
					}
					a.conns[i] = nil
					dial(i)
				}
				if conn := a.conns[i]; conn != nil && i%2 == 0 {
					_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
					_, _ = conn.Write([]byte{drip[sent/500%len(drip)]}) // fails if the program has closed it
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return a
}

// isClosed reports whether the program has closed a connection.
func isClosed(c net.Conn) bool {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	closed := true
	_ = raw.Read(func(fd uintptr) bool { // fails if it was closed here
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = n == 0 && err == nil || err != nil && !errors.Is(err, syscall.EAGAIN)
		return true
	})
	return closed
}

// stop closes the connections, and returns how many were open.
func (a *attack) stop() int {
	a.cancel()
	a.group.Wait()
	for _, c := range a.conns {
		if c == nil {
			continue
		}
		if !isClosed(c) {
			a.open++
		}
		_ = c.Close()
	}
	return a.open
}
