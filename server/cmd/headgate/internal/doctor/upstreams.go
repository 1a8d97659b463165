package doctor

import (
	"context"
	"net"
	"net/url"
	"strings"
	"time"
)

// checkUpstreams connects to every upstream of the gateway.
func (r *run) checkUpstreams(ctx context.Context) {
	const check = "upstreams"
	c := r.config
	if c.GatewayOff() {
		return
	}
	if c.NeedsDemo() {
		r.warn(check, "no upstream is set: the gateway serves its built-in demo service",
			"set upstream to the URL of the service to protect")
		return
	}
	addresses := []string{}
	if c.Upstream != "" {
		addresses = append(addresses, c.Upstream)
	}
	for i := range c.Gateway.Routes {
		for _, u := range c.Gateway.Routes[i].Upstreams {
			addresses = append(addresses, u.URL)
		}
	}
	for _, address := range addresses {
		r.checkUpstream(ctx, check, address)
	}
}

func (r *run) checkUpstream(ctx context.Context, check, address string) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	network, target := dialTarget(address)
	before := r.Now()
	conn, err := new(net.Dialer).DialContext(ctx, network, target)
	if err != nil {
		r.warn(check, address+": "+err.Error()+": the gateway responds with 502 or 503 until it is reachable",
			"start the service, or correct its address")
		return
	}
	took := r.Now().Sub(before)
	_ = conn.Close() // nothing was sent
	r.ok(check, "%s accepts connections, in %v", address, took.Round(10*time.Microsecond))
}

// dialTarget returns the network and address of an upstream's URL.
func dialTarget(address string) (network, target string) {
	scheme, rest, _ := strings.Cut(address, ":")
	if strings.HasPrefix(scheme, "unix") {
		return "unix", strings.TrimPrefix(rest, "//")
	}
	u, err := url.Parse(address)
	if err != nil {
		return "tcp", address
	}
	if u.Port() != "" {
		return "tcp", u.Host
	}
	if scheme == "https" || scheme == "h2" {
		return "tcp", net.JoinHostPort(u.Hostname(), "443")
	}
	return "tcp", net.JoinHostPort(u.Hostname(), "80")
}
