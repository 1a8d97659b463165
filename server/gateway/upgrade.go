package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/http1"
	"github.com/headgate/headgate/server/gateway/upstream"
	"github.com/headgate/headgate/server/internal/conns"
)

var (
	errTooManyUpgrades = errors.New("too many upgraded connections")
	errNoDescriptors   = errors.New("no file descriptor is left for an upgraded connection")
	errShuttingDown    = errors.New("the gateway is shutting down")
)

// upgrade asks the upstream to switch protocols. If the upstream accepts, upgrade copies bytes in both directions until
// one side ends the connection. Any other response is sent to the client.
func (ex *exchange) upgrade(
	w http.ResponseWriter, r *http.Request, s *upstreamServer, head *upstream.Head,
) (upstream.Outcome, error) {
	g := ex.g
	if !g.tunnels.Reserve() {
		return upstream.Outcome{}, s.upgrades.NewError(upstream.FaultBusy, "upgrade", errTooManyUpgrades)
	}
	defer g.tunnels.Release()
	if !g.conns.TakeDescriptor() { // for the connection to the upstream
		return upstream.Outcome{}, s.upgrades.NewError(upstream.FaultBusy, "upgrade", errNoDescriptors)
	}
	defer g.conns.GiveDescriptor()
	return s.upgrades.Upgrade(w, r, head, ex.request.removed.upgrade,
		func(response *http.Response, conn io.ReadWriteCloser) (upstream.Outcome, error) {
			return ex.connect(w, s, response, conn)
		})
}

// connect sends the upstream's 101 response to the client, and then copies bytes between the client and backend, which
// is the connection to the upstream.
func (ex *exchange) connect(
	w http.ResponseWriter, s *upstreamServer, response *http.Response, backend io.ReadWriteCloser,
) (upstream.Outcome, error) {
	g := ex.g
	outcome := upstream.Outcome{Status: http.StatusSwitchingProtocols}
	head := ex.switchingHead(w, response)
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return upstream.Outcome{}, s.upgrades.NewError(upstream.FaultUpgrade, "take over the client's connection", err)
	}
	if conn := conns.Of(client); conn != nil {
		conn.SetUpgraded()
	}
	outcome.Sent = true
	ex.response.wroteHeader, ex.response.status = true, http.StatusSwitchingProtocols
	t := g.tunnels.Add(client, backend)
	if t == nil {
		_ = client.Close()
		_ = backend.Close()
		return outcome, s.upgrades.NewError(upstream.FaultClosed, "upgrade", errShuttingDown)
	}
	defer t.Close()
	ex.forward.tunnel = t // end removes it from g.tunnels, after the limiter has settled the request's cost
	if err := writeWithTimeout(client, head, g.config.WriteTimeout); err != nil {
		return outcome, s.upgrades.NewError(upstream.FaultClient, "upgrade", err)
	}
	s.upgraded.Add(1)
	defer s.upgraded.Add(-1)
	outcome.Bytes = t.Copy(buffered.Reader)
	return outcome, nil
}

// writeWithTimeout writes data to a connection. Afterwards the connection has no deadline.
func writeWithTimeout(conn net.Conn, data []byte, timeout time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := conn.Write(data); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// switchingHead returns the head of a response with status 101, including the headers that the limiter has set. The
// gateway must write this head itself, because it has taken over the connection from the server (Hijack).
func (ex *exchange) switchingHead(w http.ResponseWriter, response *http.Response) []byte {
	protocol := response.Header.Get("Upgrade")
	http1.RemoveHopByHop(response.Header)
	h := w.Header()
	for name, lines := range response.Header {
		h[name] = append(h[name], lines...)
	}
	h[ex.g.idHeader] = ex.request.id
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
