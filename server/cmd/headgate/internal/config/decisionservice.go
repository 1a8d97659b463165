package config

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/gateway"
	"github.com/headgate/headgate/server/service"
)

// Service configures the decision service. Defaults are those of the packages below service.
type Service struct {
	MaxConns           int   `field:"max_conns" default:"20000" doc:"The most connections of each listener at once. Beyond that, idle connections are closed, those of the address with the most first; if there are none, new ones are refused."`
	MaxConnsPerAddress Count `field:"max_conns_per_address" doc:"How many of max_conns one address may have, or off. It does not apply to trusted_proxies and Unix sockets. Default: a quarter of max_conns, but at least 64."`
	MaxBody            Size  `field:"max_body" default:"1MiB" doc:"The longest body of an HTTP call, or gRPC message."`
	MaxBatch           int   `field:"max_batch" default:"1000" doc:"The most decisions in one batch."`
	API                API   `field:"api" doc:"The HTTP listener."`
	GRPC               GRPC  `field:"grpc" doc:"The gRPC listener."`
	RESP               RESP  `field:"resp" doc:"The RESP listener."`
	Envoy              Envoy `field:"envoy" doc:"Envoy's protocol."`
}

// API configures the listener of api_addr.
type API struct {
	TLS *ServiceTLS `field:"tls" doc:"Certificates, and which callers are accepted. Default: no TLS."`
}

// GRPC configures the listener of grpc_addr.
type GRPC struct {
	TLS         *ServiceTLS   `field:"tls" doc:"Certificates, and which callers are accepted. Default: no TLS."`
	CallTimeout time.Duration `field:"call_timeout" default:"1m" doc:"The timeout of a unary call without a deadline of its own, 1ms to 1h."`
	NoStore     bool          `field:"store,not" default:"true" doc:"Offer headgate.v1.Store, for programs with their own keys and limits. It has no access to the counters of rules."`
	MaxStreams  int           `field:"max_streams" default:"250" doc:"The most concurrent calls on one connection. More wait at the client."`
}

// ServiceTLS configures TLS for callers that are services, and can require client certificates.
type ServiceTLS struct {
	Certificates []CertificateFiles `field:"certificates" doc:"Certificates and their keys. A client gets the first that matches the name it asks for, else the first."`
	ClientCAFile string             `field:"client_ca_file" doc:"CA certificates for callers, in PEM: callers then need a certificate from one of them. Default: they need none."`
	MinVersion   TLSVersion         `field:"min_version" default:"1.2" doc:"The oldest accepted TLS version: 1.2 or 1.3."`
	CheckFiles   time.Duration      `field:"check_files" default:"10s" doc:"How often the files are checked. New connections use changed files; invalid files are logged and ignored."`
}

// RESP configures the listener of resp_addr.
type RESP struct {
	TLS         *ServiceTLS     `field:"tls" doc:"Certificates, and which callers are accepted. Default: no TLS."`
	OnFailure   headgate.Policy `field:"on_failure" default:"open" doc:"What CL.THROTTLE does if the store cannot be asked: open allows, closed denies, local counts in this process."`
	IdleTimeout Span            `field:"idle_timeout" default:"10m" doc:"How long a connection may be silent between commands, or off."`
}

// Envoy configures Envoy's protocol, on grpc_addr and as JSON on api_addr.
type Envoy struct {
	NoCountDenied   bool            `field:"count_denied,not" default:"true" doc:"With envoy_config, count denied hits too, as envoyproxy/ratelimit does. Rules have count_rejected for that."`
	ResponseHeaders bool            `field:"response_headers" default:"false" doc:"Add RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to responses."`
	DynamicMetadata bool            `field:"dynamic_metadata" default:"false" doc:"Send dynamic_metadata with every response, not only where a limit has metadata, as RESPONSE_DYNAMIC_METADATA of envoyproxy/ratelimit does."`
	MergeDomains    bool            `field:"merge_domains" default:"false" doc:"With envoy_config, let several files have the same domain, as MERGE_DOMAIN_CONFIG of envoyproxy/ratelimit does. Otherwise a second file of a domain is refused."`
	OnFailure       headgate.Policy `field:"on_failure" default:"open" doc:"With envoy_config, the decision if the store cannot be asked: open allows, closed denies, local counts in this process."`
}

// checkService checks values that packages would refuse too, to return their positions in the file.
func (c *Config) checkService() error {
	for _, n := range []struct {
		name        string
		value       int64
		least, most int64
	}{
		{"max_conns", int64(c.Service.MaxConns), 1, 1_000_000},
		{"max_body", int64(c.Service.MaxBody), 1 << 10, 64 << 20},
		{"max_batch", int64(c.Service.MaxBatch), 1, 100_000},
		{"grpc.max_streams", int64(c.Service.GRPC.MaxStreams), 1, 1 << 20},
	} {
		if n.value != 0 && (n.value < n.least || n.value > n.most) {
			return c.problemAt("service."+n.name, strconv.FormatInt(n.value, 10), fmt.Sprintf("%d to %d", n.least, n.most))
		}
	}
	if n := c.Admin.MaxConns; n < 0 || n > 1_000_000 {
		return c.problemAt("admin.max_conns", strconv.Itoa(n), "1 to 1000000")
	}
	if t := c.Service.GRPC.CallTimeout; t != 0 && (t < time.Millisecond || t > time.Hour) {
		return c.problemAt("service.grpc.call_timeout", t.String(), "1ms to 1h")
	}
	for _, l := range []struct {
		name string
		tls  *ServiceTLS
	}{{"api", c.Service.API.TLS}, {"grpc", c.Service.GRPC.TLS}, {"resp", c.Service.RESP.TLS}} {
		if l.tls != nil && len(l.tls.Certificates) == 0 {
			return c.problemAt("service."+l.name+".tls", "no certificates",
				"certificates: [{ cert_file: tls.crt, key_file: tls.key }]")
		}
	}
	return nil
}

// checkEnvoy returns an error if no listener serves the limits for Envoy.
func (c *Config) checkEnvoy() error {
	if c.EnvoyConfig != "" && c.GRPCAddr == Off && c.APIAddr == Off {
		return &valueError{"given while grpc_addr and api_addr are off", "one of them to listen"}
	}
	return nil
}

// Settings converts t to the options of package service. The result is nil if t is nil.
func (t *ServiceTLS) Settings() *service.TLS {
	if t == nil {
		return nil
	}
	result := new(service.TLS)
	copyFields(result, *t)
	return result
}

// ServiceOff reports whether the decision service is off.
func (c *Config) ServiceOff() bool { return c.APIAddr == Off && c.GRPCAddr == Off && c.RESPAddr == Off }

// Drain returns how long new calls are still accepted when the node stops, and how long stopping may take in total.
func (c *Config) Drain() (delay, timeout time.Duration) {
	return c.Gateway.DrainDelay, cmp.Or(c.Gateway.DrainTimeout, gateway.DefaultDrainTimeout)
}
