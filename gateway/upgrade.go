package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/gateway/internal/http1"
	"github.com/headgate/headgate/gateway/upstream"
	"github.com/headgate/headgate/internal/conns"
)

// tunnels are the upgraded connections.
type tunnels struct {
	most   int64
	now    atomic.Int64
	total  atomic.Int64
	idled  atomic.Int64 // closed because nobody said anything
	aged   atomic.Int64 // closed because they had lasted too long
	cut    atomic.Int64 // closed by a drain
	mu     sync.Mutex
	open   map[*tunnel]struct{}
	closed bool
	empty  chan struct{} // closed when the last one ends after close; made by who waits
}

// A tunnel is a connection of a client that has been upgraded, and its other end at the upstream.
type tunnel struct {
	client    net.Conn
	upstream  io.ReadWriteCloser
	active    atomic.Int64 // when something last passed, by the gateway's clock
	closeOnce sync.Once

	mu   sync.Mutex
	idle *time.Timer
}

// close closes both ends. It reports whether they were open.
func (t *tunnel) close() (was bool) {
	t.closeOnce.Do(func() {
		was = true
		_ = t.client.Close()
		t.upstream.Close()
	})
	return was
}

func (t *tunnels) add(one *tunnel) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	if t.open == nil {
		t.open = make(map[*tunnel]struct{})
	}
	t.open[one] = struct{}{}
	return true
}

func (t *tunnels) remove(one *tunnel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, one)
	if t.empty != nil && len(t.open) == 0 {
		close(t.empty)
		t.empty = nil
	}
}

// wait waits until there are none.
func (t *tunnels) wait(ctx context.Context) error {
	t.mu.Lock()
	if len(t.open) == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.empty == nil {
		t.empty = make(chan struct{})
	}
	empty := t.empty
	t.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeAll closes all there are, and lets no others be.
func (t *tunnels) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for one := range t.open {
		if one.close() {
			t.cut.Add(1)
		}
	}
}

// upgrade asks the upstream to switch protocols, and if it does, passes on all that comes until one side ends it. An
// upstream that does not is answered for as usual.
func (ex *exchange) upgrade(w http.ResponseWriter, r *http.Request, s *upstreamServer, head *upstream.Head) (upstream.Outcome, error) {
	g, t := ex.g, s.tunnel
	if g.tunnels.now.Add(1) > g.tunnels.most {
		g.tunnels.now.Add(-1)
		return upstream.Outcome{}, t.fault(upstream.FaultBusy, "upgrade", errTooManyUpgrades)
	}
	defer g.tunnels.now.Add(-1)
	if !g.conns.TakeDescriptor() { // for the connection to the upstream
		return upstream.Outcome{}, t.fault(upstream.FaultBusy, "upgrade", errNoDescriptors)
	}
	defer g.conns.GiveDescriptor()
	// Not the request's own context: the server ends that when the connection is no longer its own.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	hungUp := context.AfterFunc(r.Context(), cancel)
	defer hungUp()
	out := t.request(ctx, r, head)
	out.Header["Connection"] = []string{"Upgrade"}
	out.Header["Upgrade"] = []string{ex.hops.upgrade}
	answer, err := t.rt.RoundTrip(out)
	if err != nil {
		return upstream.Outcome{}, t.explain(r.Context(), err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols {
		outcome := upstream.Outcome{Status: answer.StatusCode, Sent: true}
		stalls := time.AfterFunc(t.stall, cancel)
		defer stalls.Stop()
		announced := writeAnswer(w, answer)
		if outcome.Bytes, err = t.copyBody(w, answer, stalls); err != nil {
			return outcome, t.explainBody(ctx, err)
		}
		writeTrailers(w, answer.Trailer, announced)
		return outcome, nil
	}
	if !strings.EqualFold(answer.Header.Get("Upgrade"), ex.hops.upgrade) {
		return upstream.Outcome{Status: answer.StatusCode}, t.fault(upstream.FaultResponse, "upgrade", errOtherProtocol)
	}
	back, ok := answer.Body.(io.ReadWriteCloser)
	if !ok {
		return upstream.Outcome{}, t.fault(upstream.FaultUpgrade, "upgrade", errNoConnection)
	}
	hungUp() // from now on the connection is watched by who reads from it
	return ex.connect(w, answer, back)
}

var (
	errTooManyUpgrades = errors.New("too many connections are upgraded")
	errNoDescriptors   = errors.New("no file descriptor is left for a connection that is upgraded")
	errOtherProtocol   = errors.New("the upstream switched to another protocol than it was asked to")
	errNoConnection    = errors.New("the upstream's connection cannot be written to")
	errDrained         = errors.New("the gateway is shutting down")
)

// connect tells the client that the protocol is switched, and connects the two ends.
func (ex *exchange) connect(w http.ResponseWriter, answer *http.Response, back io.ReadWriteCloser) (upstream.Outcome, error) {
	g := ex.g
	outcome := upstream.Outcome{Status: http.StatusSwitchingProtocols}
	lines := switchLines(ex, w, answer)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return upstream.Outcome{}, ex.upstream.tunnel.fault(upstream.FaultUpgrade, "take over the client's connection", err)
	}
	if place := conns.Of(conn); place != nil {
		place.SetUpgraded()
	}
	outcome.Sent = true
	ex.wrote, ex.status = true, http.StatusSwitchingProtocols
	one := &tunnel{client: conn, upstream: back}
	defer one.close()
	if !g.tunnels.add(one) {
		return outcome, ex.upstream.tunnel.fault(upstream.FaultClosed, "upgrade", errDrained)
	}
	ex.tunnel = one // until the limiter knows too that it is over
	g.tunnels.total.Add(1)
	if err := conn.SetDeadline(time.Now().Add(g.config.WriteTimeout)); err != nil {
		return outcome, ex.upstream.tunnel.fault(upstream.FaultClient, "upgrade", err)
	}
	if _, err := conn.Write(lines); err != nil {
		return outcome, ex.upstream.tunnel.fault(upstream.FaultClient, "upgrade", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return outcome, ex.upstream.tunnel.fault(upstream.FaultClient, "upgrade", err)
	}
	ex.upstream.upgraded.Add(1)
	defer ex.upstream.upgraded.Add(-1)
	outcome.Bytes = g.pass(one, buffered.Reader)
	return outcome, nil
}

// switchLines returns the header of the answer, as it is written when the server does it no more. Headers that are there
// already are the limiter's.
func switchLines(ex *exchange, w http.ResponseWriter, answer *http.Response) []byte {
	protocol := answer.Header.Get("Upgrade")
	http1.RemoveHopByHop(answer.Header)
	h := w.Header()
	for name, lines := range answer.Header {
		h[name] = append(h[name], lines...)
	}
	h[ex.g.idHeader] = ex.id
	delete(h, "Content-Length")
	delete(h, "Transfer-Encoding")
	var b strings.Builder
	b.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ")
	b.WriteString(protocol)
	b.WriteString("\r\n")
	_ = h.Write(&b) // a Builder never fails; line breaks in values become spaces
	b.WriteString("\r\n")
	return []byte(b.String())
}

// pass passes on what either side sends until both have ended, one has failed, or nobody has said anything for too long. It
// returns how much the client was sent.
func (g *Gateway) pass(t *tunnel, early *bufio.Reader) int64 {
	t.active.Store(int64(g.now()))
	t.mu.Lock()
	t.idle = time.AfterFunc(g.config.StreamTimeout, func() { g.closeIdle(t) })
	t.mu.Unlock()
	defer t.idle.Stop()
	if age := g.config.MaxUpgradeAge; age > 0 {
		old := time.AfterFunc(age, func() {
			if t.close() {
				g.tunnels.aged.Add(1)
			}
		})
		defer old.Stop()
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		// What the client sent before he knew that he may.
		if n := early.Buffered(); n > 0 {
			if _, err := io.CopyN(t.upstream, early, int64(n)); err != nil {
				t.close()
				return
			}
		}
		g.copyTunnel(t, t.upstream, t.client)
	}()
	n := g.copyTunnel(t, t.client, t.upstream)
	<-done
	return n
}

// closeIdle closes a tunnel that nothing has passed for too long, or looks again when it may be time.
func (g *Gateway) closeIdle(t *tunnel) {
	if left := g.config.StreamTimeout - (g.now() - time.Duration(t.active.Load())); left > 0 {
		t.mu.Lock()
		t.idle.Reset(left)
		t.mu.Unlock()
		return
	}
	if t.close() {
		g.tunnels.idled.Add(1)
	}
}

// copyTunnel copies one direction, and passes on its end. If that fails, both are over.
func (g *Gateway) copyTunnel(t *tunnel, to io.Writer, from io.Reader) (n int64) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for {
		got, err := from.Read(*buffer)
		if got > 0 {
			t.active.Store(int64(g.now()))
			sent, failed := to.Write((*buffer)[:got])
			n += int64(sent)
			if failed != nil {
				t.close()
				return n
			}
			t.active.Store(int64(g.now()))
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) || conns.CloseWrite(to) != nil {
			t.close()
		}
		return n
	}
}
