package conns_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/server/internal/conns"
)

// A fakeConn is a connection from an address of the test's choice.
type fakeConn struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return c.from }

func (c *fakeConn) Close() error {
	c.closed = true
	return nil
}

// bounds are Conns whose connections the test opens by hand.
type bounds struct {
	t *testing.T
	*conns.Conns
	log *bytes.Buffer
}

func newBounds(t *testing.T, o conns.Options) *bounds {
	t.Helper()
	b := &bounds{t: t, log: &bytes.Buffer{}}
	o.Name, o.Logger = "test", slog.New(slog.NewTextHandler(b.log, nil))
	b.Conns = conns.New(o)
	return b
}

// open admits a connection from an address; empty for a Unix socket. It is nil if it was refused.
func (b *bounds) open(from string) *conns.Conn {
	b.t.Helper()
	fake := &fakeConn{from: &net.UnixAddr{}}
	if from != "" {
		fake.from = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 4711))
	}
	conn := b.Admit(fake, false)
	if (conn == nil) != fake.closed {
		b.t.Errorf("%s: closed %t, want it closed if it is refused", from, fake.closed)
	}
	return conn
}

// openAs admits a connection that is doing something.
func (b *bounds) openAs(from string, kind conns.Kind) *conns.Conn {
	b.t.Helper()
	conn := b.open(from)
	if conn == nil {
		b.t.Fatalf("a connection from %s was refused", from)
	}
	conn.SetKind(kind)
	return conn
}

func isClosed(c *conns.Conn) bool { return c.Conn.(*fakeConn).closed }

func TestOneAddressCannotTakeTheConnectionsOfOthers(t *testing.T) {
	t.Parallel()
	b := newBounds(t, conns.Options{Max: 400})
	var first *conns.Conn
	for i := range 100 {
		conn := b.openAs("192.0.2.1", conns.Busy)
		if i == 0 {
			first = conn
		}
	}
	for range 10 {
		if b.open("192.0.2.1") != nil {
			t.Fatal("an address has more than a quarter of the connections")
		}
	}
	if b.open("192.0.2.2") == nil {
		t.Error("another address is refused")
	}
	if got, want := b.Counts(), (conns.Counts{Accepted: 101, Refused: 10}); got != want || b.Open() != 101 {
		t.Errorf("got %+v and %d open, want %+v and 101", got, b.Open(), want)
	}
	if text := b.log.String(); strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, `listener=test reason=address address=192.0.2.1 address_has=100 address_limit=100 open=100 limit=400`) {
		t.Errorf("got %q in the log, want one line that says it all", text)
	}
	_ = first.Close()
	_ = first.Close() // counts once
	if b.open("192.0.2.1") == nil {
		t.Error("refused though one of its own was closed")
	}
	if b.open("192.0.2.1") != nil {
		t.Error("closing a connection twice has freed two slots")
	}
}

func TestLimitOfOneAddress(t *testing.T) {
	t.Parallel()
	office := netip.MustParsePrefix("198.51.100.0/24")
	for _, tt := range []struct {
		what string
		o    conns.Options
		from func(i int) string
		want int
	}{
		{"a quarter", conns.Options{Max: 1000}, func(int) string { return "192.0.2.1" }, 250},
		{"at least 64", conns.Options{Max: 100}, func(int) string { return "192.0.2.1" }, 64},
		{"at most all", conns.Options{Max: 10}, func(int) string { return "192.0.2.1" }, 10},
		{"as given", conns.Options{Max: 1000, PerAddress: 7}, func(int) string { return "192.0.2.1" }, 7},
		{"none", conns.Options{Max: 1000, PerAddress: -1}, func(int) string { return "192.0.2.1" }, 1000},
		{"IPv4 in IPv6", conns.Options{Max: 1000, PerAddress: 7}, func(i int) string { return []string{"192.0.2.1", "::ffff:192.0.2.1"}[i%2] }, 7},
		{"a network of IPv6", conns.Options{Max: 1000, PerAddress: 7}, func(i int) string { return fmt.Sprintf("2001:db8::%x", i) }, 7},
		{"networks of IPv6", conns.Options{Max: 1000, PerAddress: 7}, func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i) }, 1000},
		{"a trusted proxy", conns.Options{Max: 1000, PerAddress: 7, Exempt: office.Contains}, func(int) string { return "198.51.100.9" }, 1000},
		{"a Unix socket", conns.Options{Max: 1000, PerAddress: 7}, func(int) string { return "" }, 1000},
	} {
		b, got := newBounds(t, tt.o), 0
		for i := range 1100 {
			if conn := b.open(tt.from(i)); conn != nil {
				conn.SetKind(conns.Busy)
				got++
			}
		}
		if got != tt.want {
			t.Errorf("%s: got %d connections, want %d", tt.what, got, tt.want)
		}
	}
}

func TestConnectionsWithoutRequestMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBounds(t, conns.Options{Max: 10, PerAddress: 6})
		heavy := map[string]*conns.Conn{
			"busy": b.openAs("192.0.2.1", conns.Busy), "idle": b.openAs("192.0.2.1", conns.Idle), "denied": b.openAs("192.0.2.1", conns.Denied),
			"unused": b.open("192.0.2.1"), "upgraded": b.openAs("192.0.2.1", conns.Idle),
		}
		heavy["upgraded"].SetUpgraded()
		light := b.openAs("192.0.2.2", conns.Denied)
		others := []*conns.Conn{b.openAs("192.0.2.3", conns.Idle), b.openAs("192.0.2.3", conns.Busy)}
		for range 3 {
			b.openAs("192.0.2.4", conns.Busy)
		}
		if b.Open() != 10 {
			t.Fatalf("got %d connections, want 10", b.Open())
		}
		time.Sleep(2 * time.Second) // until one that has sent nothing counts as unused
		for i, want := range []*conns.Conn{heavy["denied"], light, heavy["unused"], heavy["idle"], others[0]} {
			if b.open(fmt.Sprintf("198.51.100.%d", i)) == nil {
				t.Fatalf("new connection %d is refused", i)
			}
			if !isClosed(want) {
				t.Fatalf("new connection %d: another connection was closed", i)
			}
			time.Sleep(time.Millisecond)
		}
		if b.open("203.0.113.1") != nil {
			t.Error("a new connection is accepted though all others are busy or new")
		}
		if isClosed(heavy["busy"]) || isClosed(heavy["upgraded"]) || isClosed(others[1]) {
			t.Error("a busy connection was closed")
		}
		if got, want := b.Counts(), (conns.Counts{Accepted: 16, Refused: 1, Reclaimed: 5}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		_ = heavy["denied"].Close() // by its server, later
		if b.Open() != 10 {
			t.Errorf("got %d connections, want 10: a reclaimed one is not counted twice", b.Open())
		}
	})
}

func TestAnAddressReplacesItsOwnIdleConnections(t *testing.T) {
	t.Parallel()
	b := newBounds(t, conns.Options{Max: 1000, PerAddress: 3})
	mine := []*conns.Conn{b.openAs("192.0.2.1", conns.Busy), b.openAs("192.0.2.1", conns.Idle), b.openAs("192.0.2.1", conns.Busy)}
	other := b.openAs("192.0.2.2", conns.Denied)
	if b.open("192.0.2.1") == nil || !isClosed(mine[1]) || isClosed(other) {
		t.Error("want the idle connection of the same address closed for its next one, and no other")
	}
	if b.open("192.0.2.1") != nil {
		t.Error("an address without idle connections exceeds its bound")
	}
}

func TestNewConnectionDoesNotEvictSmallerAddresses(t *testing.T) {
	t.Parallel()
	b := newBounds(t, conns.Options{Max: 4, PerAddress: 3})
	single := b.openAs("192.0.2.1", conns.Idle)
	for range 3 {
		b.openAs("192.0.2.2", conns.Busy)
	}
	if b.open("192.0.2.2") != nil || isClosed(single) {
		t.Error("an address with three connections has pushed out the only one of another")
	}
}

func TestReservedDescriptorsAreNotShared(t *testing.T) {
	t.Parallel()
	shared := conns.NewBudget(10)
	admin := newBounds(t, conns.Options{Max: 1000, PerAddress: -1, Descriptors: conns.Share{Reserved: 5, Shared: shared}})
	gateway := newBounds(t, conns.Options{Max: 1000, PerAddress: -1, Descriptors: conns.Share{Reserved: 5, Shared: shared}})
	if admin.Max() != 15 {
		t.Errorf("got at most %d connections, want 15: there are no descriptors for more", admin.Max())
	}
	var held []*conns.Conn
	for range 100 {
		if conn := admin.open("192.0.2.1"); conn != nil {
			held = append(held, conn)
		}
	}
	if len(held) != 15 {
		t.Errorf("one listener: got %d connections, want its own 5 and the 10 that are shared", len(held))
	}
	for i := range 6 {
		if got := gateway.open("192.0.2.2") != nil; got != (i < 5) {
			t.Errorf("the other, connection %d: let in %t, want its own 5", i+1, got)
		}
	}
	if gateway.TakeDescriptor() {
		t.Error("there is a descriptor that there should not be")
	}
	for _, conn := range held[:3] {
		_ = conn.Close()
	}
	if !gateway.TakeDescriptor() || gateway.open("192.0.2.2") == nil || gateway.open("192.0.2.2") == nil || gateway.open("192.0.2.2") != nil {
		t.Error("want three descriptors that the first listener has given back, and no more")
	}
	gateway.GiveDescriptor()
	if gateway.open("192.0.2.2") == nil {
		t.Error("a descriptor that was given back is lost")
	}
}

func TestLoadBalancerClientsCountByTheirAddress(t *testing.T) {
	t.Parallel()
	b := newBounds(t, conns.Options{Max: 100, PerAddress: 2})
	admit := func() *conns.Conn {
		return b.Admit(&fakeConn{from: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 1}}, true)
	}
	client, other := netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2")
	var first *conns.Conn
	for i, want := range []error{nil, nil, conns.ErrTooMany} {
		conn := admit()
		conn.SetKind(conns.Busy)
		if err := conn.SetAddr(client); !errors.Is(err, want) {
			t.Errorf("connection %d: got %v, want %v", i, err, want)
		}
		if i == 0 {
			first = conn
		}
	}
	if err := admit().SetAddr(other); err != nil {
		t.Errorf("another client: got %v", err)
	}
	_ = first.Close()
	if err := admit().SetAddr(client); err != nil {
		t.Errorf("after one was closed: got %v", err)
	}
}

// Listeners accept, servers close and connections change their state at the same time.
func TestConcurrentConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	b := newBounds(t, conns.Options{Max: 50, PerAddress: 20, Descriptors: conns.Share{Reserved: 10, Shared: conns.NewBudget(20)}})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			var held []*conns.Conn
			for j := range 2000 {
				conn := b.Admit(&fakeConn{from: &net.TCPAddr{IP: net.IPv4(192, 0, 2, byte(j%5)), Port: 1}}, j%7 == 0)
				if conn != nil {
					conn.SetKind(conns.Kind(j % 4))
					held = append(held, conn)
				}
				if len(held) > i || conn == nil && len(held) > 0 {
					_ = held[0].Close()
					held = held[1:]
				}
			}
			for _, conn := range held {
				_ = conn.Close()
			}
		})
	}
	all.Wait()
	if b.Open() != 0 {
		t.Errorf("got %d connections, want none left", b.Open())
	}
	for i := range 30 {
		if conn := b.Admit(&fakeConn{from: &net.UnixAddr{}}, false); conn == nil {
			t.Fatalf("connection %d is refused: a descriptor is lost", i)
		}
	}
}

func TestExcessConnectionsAreClosedAndCounted(t *testing.T) {
	t.Parallel()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	of := conns.New(conns.Options{Max: 2, Logger: slog.New(slog.DiscardHandler)})
	l := of.Listener(plain)
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	try := func() (net.Conn, error) { return net.DialTimeout("tcp", plain.Addr().String(), time.Minute) }
	prepare := func(conn net.Conn, err error) net.Conn {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	for range 2 {
		prepare(try())
	}
	first := <-accepted
	<-accepted
	// It may be closed before the client knows that it was open.
	if conn, err := try(); err == nil {
		if n, err := prepare(conn, nil).Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("one too many: got %d bytes, %v; want it closed", n, err)
		}
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("one too many: got %v", err)
	}
	if got, want := of.Counts(), (conns.Counts{Accepted: 2, Refused: 1}); got != want || of.Open() != 2 {
		t.Errorf("got %d open, %+v; want 2, %+v", of.Open(), got, want)
	}
	_ = first.Close()
	next := prepare(try())
	served := <-accepted
	if _, err := io.WriteString(served, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := next.Read(make([]byte, 1)); err != nil {
		t.Errorf("when there is room again: got %v", err)
	}
	if got := of.Counts().Accepted; of.Open() != 2 || got != 3 {
		t.Errorf("got %d open, %d accepted; want 2, 3", of.Open(), got)
	}
}
