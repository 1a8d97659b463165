package redistest

import (
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// A Proxy forwards connections of clients to a server, and can simulate faults of the network. It is safe for
// concurrent use.
type Proxy struct {
	t      testing.TB
	addr   string
	target string
	ended  sync.WaitGroup // all goroutines

	mu       sync.Mutex
	listener net.Listener // nil while cut
	links    map[*link]struct{}
	dropping bool // Blackhole was called
	delay    time.Duration
}

// NewProxy starts a proxy to a server's address that ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, links: make(map[*link]struct{})}
	t.Cleanup(func() {
		p.Cut()
		p.ended.Wait()
	})
	var err error
	for range 10 { // another process may take the free port first
		var at *reservedPorts
		if at, err = reservePorts(); err != nil {
			break
		}
		t.Cleanup(at.release)
		p.addr = address(at.port)
		if err = p.heal(); err == nil {
			return p
		}
	}
	t.Fatalf("redistest: proxy to %s: %v", target, err)
	return nil
}

// Addr returns the proxy's host and port.
func (p *Proxy) Addr() string { return p.addr }

// Cut breaks all connections and refuses new ones, until Heal.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		closeQuietly(p.listener)
		p.listener = nil
	}
	for l := range p.links {
		l.reset()
	}
}

// Blackhole drops all data in both directions, until Heal. Connections stay open, and new ones are accepted. After a
// Cut it has no effect: call Heal first.
func (p *Proxy) Blackhole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropping = true
}

// Heal ends Cut and Blackhole. Connections that have lost data are broken, because no network delivers a stream with a
// gap.
func (p *Proxy) Heal() {
	p.t.Helper()
	// A process that is just being started holds the listener until it executes its program.
	if err := waitUntil("heal the proxy to "+p.target, p.heal); err != nil {
		p.t.Error(err)
	}
}

// heal is Heal without retries.
func (p *Proxy) heal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropping = false
	for l := range p.links {
		if l.lost {
			l.reset()
		}
	}
	if p.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.listener = listener
	p.ended.Go(func() { p.accept(listener) })
	return nil
}

// SetDelay delays all further data by d in each direction: a round trip takes 2d longer. Heal does not end it.
func (p *Proxy) SetDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // closed by Cut
		}
		p.ended.Go(func() { p.serve(client, listener) })
	}
}

// serve connects a client with the target until either closes.
func (p *Proxy) serve(client net.Conn, listener net.Listener) {
	defer closeQuietly(client)
	server, err := net.DialTimeout("tcp", p.target, doTimeout)
	if err != nil {
		return
	}
	defer closeQuietly(server)
	l := &link{proxy: p, client: client.(*net.TCPConn), server: server.(*net.TCPConn), broken: make(chan struct{})}
	if !p.add(l, listener) {
		return
	}
	defer p.remove(l)
	var directions sync.WaitGroup
	directions.Go(func() { l.copyData(l.client, l.server) })
	directions.Go(func() { l.copyData(l.server, l.client) })
	directions.Wait()
}

// add adds a link, unless the proxy was cut since the client connected.
func (p *Proxy) add(l *link, listener net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != listener {
		l.reset()
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// A link is the connection of a client to the proxy, and the connection of the proxy to the target for it. The
// proxy's lock guards it.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn
	broken         chan struct{} // closed by reset
	isBroken, lost bool
}

// reset breaks the link, so that both ends notice it immediately.
func (l *link) reset() {
	if l.isBroken {
		return
	}
	l.isBroken = true
	close(l.broken)
	for _, c := range []*net.TCPConn{l.client, l.server} {
		_ = c.SetLinger(0)
		closeQuietly(c)
	}
}

// A chunk is the data of one read, and the time at which to deliver it.
type chunk struct {
	data []byte
	due  time.Time
}

// copyData copies data from one end to the other, until either is closed.
func (l *link) copyData(from, to *net.TCPConn) {
	chunks := make(chan chunk, 1024)
	var delivered sync.WaitGroup
	delivered.Go(func() { l.deliver(chunks, to) })
	defer delivered.Wait()
	defer close(chunks)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		due, lost := l.deliveryTime()
		if n > 0 && !lost {
			select {
			case chunks <- chunk{slices.Clone(buffer[:n]), due}:
			case <-l.broken:
			}
		}
		if err != nil {
			if lost {
				<-l.broken // the end of the stream is dropped as well
			}
			return
		}
	}
}

// deliveryTime returns when to deliver data that was just read, or that the data is lost.
func (l *link) deliveryTime() (due time.Time, lost bool) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if l.proxy.dropping {
		l.lost = true
		return time.Time{}, true
	}
	return time.Now().Add(l.proxy.delay), false
}

// deliver writes data when it is due, and passes the end of the stream on.
func (l *link) deliver(chunks <-chan chunk, to *net.TCPConn) {
	for c := range chunks {
		select {
		case <-time.After(time.Until(c.due)):
		case <-l.broken:
			return
		}
		if _, err := to.Write(c.data); err != nil {
			l.abandon()
			return
		}
	}
	if err := to.CloseWrite(); err != nil {
		l.abandon()
	}
}

// abandon locks the proxy and calls reset.
func (l *link) abandon() {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.reset()
}
