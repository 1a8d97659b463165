package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"syscall"

	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/cmd/headgate/internal/descriptors"
	"github.com/headgate/headgate/server/internal/conns"
	"github.com/headgate/headgate/server/telemetry"
)

// A runningNode is a node that listens at the configured admin address.
type runningNode struct {
	version string
	ports   map[string]bool // of its listeners; paths for Unix sockets
}

// listeners returns the configured addresses and their settings. The gossip listener comes last, if it is enabled.
func listeners(c *config.Config) (list [][2]string) {
	if len(c.Gateway.Listeners) > 0 {
		for i, l := range c.Gateway.Listeners {
			list = append(list, [2]string{fmt.Sprintf("gateway.listeners[%d]", i), l.Address})
		}
	} else {
		list = append(list, [2]string{"gateway_addr", c.GatewayAddr})
	}
	list = append(list, [2]string{"api_addr", c.APIAddr}, [2]string{"grpc_addr", c.GRPCAddr},
		[2]string{"resp_addr", c.RESPAddr}, [2]string{"admin_addr", c.AdminAddr})
	if c.GossipEnabled() {
		list = append(list, [2]string{"gossip_addr", c.GossipAddr})
	}
	return list
}

// checkListeners checks that a node can listen on all configured addresses, or already does.
func (r *run) checkListeners(ctx context.Context) {
	r.running = r.findRunning(ctx)
	for _, l := range listeners(r.config) {
		name, addr := l[0], l[1]
		if addr == config.Off {
			continue
		}
		err := tryListen(ctx, addr, name == "gossip_addr")
		switch {
		case err == nil:
			r.ok(name, "%s is free", addr)
		case errors.Is(err, syscall.EADDRINUSE) && r.running != nil && r.running.ports[port(addr)]:
			r.ok(name, "%s is in use by headgate %s, which is running", addr, r.running.version)
		default:
			r.problem(name, err.Error(), fixListen(name, err))
		}
	}
}

func fixListen(name string, err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "stop the other program (ss -ltnp shows it), or set another " + name
	case errors.Is(err, syscall.EACCES), errors.Is(err, os.ErrPermission):
		return "use a port above 1023, or allow low ports with AmbientCapabilities=CAP_NET_BIND_SERVICE or setcap"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "use an address of this host (ip addr shows them), or :PORT for all of them"
	}
	return "correct " + name
}

// tryListen checks whether a program can listen on an address.
func tryListen(ctx context.Context, addr string, udp bool) error {
	l, err := conns.Listen(addr)
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil || !udp {
		return err
	}
	var lc net.ListenConfig
	packets, err := lc.ListenPacket(ctx, "udp", addr)
	if err != nil {
		return err
	}
	return packets.Close()
}

func port(addr string) string {
	network, address := conns.Split(addr)
	if network == "unix" {
		return address
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return port
}

// maxStatus is the maximum size of a response of /readyz in bytes.
const maxStatus = 1 << 20

// findRunning returns the node that runs at the configured admin address, with its listeners, or nil if there is none.
func (r *run) findRunning(ctx context.Context) *runningNode {
	if r.config.AdminAddr == config.Off {
		return nil
	}
	network, address := conns.Split(r.config.AdminAddr)
	scheme := "http"
	if r.config.Admin.TLS != nil {
		scheme = "https"
	}
	transport := &http.Transport{
		// Only the addresses of the node are read, and nothing secret is sent.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://localhost/readyz", http.NoBody)
	if err != nil {
		return nil
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil // no node runs here
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	var status telemetry.Status
	err = json.NewDecoder(io.LimitReader(response.Body, maxStatus)).Decode(&status)
	if err != nil || len(status.Listeners) == 0 {
		return nil
	}
	found := &runningNode{version: status.Version, ports: make(map[string]bool)}
	for _, addr := range status.Listeners {
		found.ports[port(addr)] = true
	}
	return found
}

// checkExposure warns about listeners that other hosts can reach without a token or a client certificate.
func (r *run) checkExposure(context.Context) {
	c := r.config
	exposed := 0
	for _, l := range []struct {
		name, addr string
		tls        *config.ServiceTLS
	}{
		{"api_addr", c.APIAddr, c.Service.API.TLS},
		{"grpc_addr", c.GRPCAddr, c.Service.GRPC.TLS},
		{"resp_addr", c.RESPAddr, c.Service.RESP.TLS},
	} {
		private := l.addr == config.Off || isLocal(l.addr) || l.tls != nil && l.tls.ClientCAFile != ""
		if private || c.APITokenFile != "" {
			continue
		}
		exposed++
		r.warn(l.name, "other hosts can reach "+l.addr+" without a token: they can consume the limits of any client",
			"set api_token_file, tls.client_ca_file, or an address such as 127.0.0.1")
	}
	if c.GossipEnabled() && c.GossipKeyFile == "" && !isLocal(c.GossipAddr) {
		exposed++
		r.add(Result{
			"gossip_addr", Warning, "gossip is not encrypted: every host that can reach " + c.GossipAddr + " can take part",
			"set the same gossip_key_file on all nodes: openssl rand -base64 32 > FILE",
		})
	}
	if exposed == 0 {
		r.ok("exposure", "no listener of the decision service is open to other hosts without authentication")
	}
}

// isLocal reports whether only this host can reach an address.
func isLocal(addr string) bool {
	network, address := conns.Split(addr)
	if network == "unix" {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// checkDescriptors compares the limit of open files with the configured connections.
func (r *run) checkDescriptors(context.Context) {
	const check = "descriptors"
	limit := conns.DescriptorLimit()
	needed, err := descriptors.Needed(r.config)
	switch {
	case err != nil:
		r.problem(check, err.Error(), "correct the setting")
	case limit == 0:
		r.add(Result{check, Skipped, "this system does not report a limit of open files", ""})
	case needed > limit:
		r.warn(check,
			fmt.Sprintf("the process may open %d files, and the configured connections need %d: headgate allows fewer connections",
				limit, needed),
			fmt.Sprintf("LimitNOFILE=%d in the systemd unit, ulimit -n %d in the shell, or lower max_conns", needed, needed))
	default:
		r.ok(check, "%d of at most %d open files needed", needed, limit)
	}
}
