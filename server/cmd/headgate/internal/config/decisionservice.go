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

// Service configures the decision service, with which other programs ask for decisions. Fields that are not set have
// the defaults of the packages in server/service.
type Service struct {
	MaxConns           int        `field:"max_conns" default:"20000" doc:"Maximum number of connections of each listener. Above it, idle connections are closed, starting with the address that has the most connections. If there are none, new connections are refused."`
	MaxConnsPerAddress CountOrOff `field:"max_conns_per_address" doc:"Maximum number of connections from one address, or off. Trusted proxies and Unix sockets are exempt. Default: a quarter of max_conns, at least 64."`
	MaxBody            Size       `field:"max_body" default:"1MiB" doc:"Maximum size of an HTTP request body or a gRPC message."`
	MaxBatch           int        `field:"max_batch" default:"1000" doc:"Maximum number of decisions in one batch."`
	API                API        `field:"api" doc:"The HTTP listener."`
	GRPC               GRPC       `field:"grpc" doc:"The gRPC listener."`
	RESP               RESP       `field:"resp" doc:"The RESP listener."`
	Envoy              Envoy      `field:"envoy" doc:"Envoy's protocol."`
}

// API configures the listener of api_addr.
type API struct {
	TLS *ServiceTLS `field:"tls" doc:"TLS certificates, and client authentication. Default: no TLS."`
}

// GRPC configures the listener of grpc_addr.
type GRPC struct {
	TLS         *ServiceTLS   `field:"tls" doc:"TLS certificates, and client authentication. Default: no TLS."`
	CallTimeout time.Duration `field:"call_timeout" default:"1m" doc:"Timeout of unary calls that have no deadline. From 1ms to 1h."`
	NoStore     bool          `field:"store,not" default:"true" doc:"Serve headgate.v1.Store, for programs with their own keys and limits. It has no access to the counters of rules."`
	MaxStreams  int           `field:"max_streams" default:"250" doc:"Maximum number of concurrent calls on one connection. Further calls wait in the client."`
}

// ServiceTLS configures TLS for listeners of the decision service and the admin listener. It can require client
// certificates.
type ServiceTLS struct {
	Certificates    []CertificateFiles `field:"certificates" doc:"Certificates with their keys. A client receives the first certificate that matches the server name it requests (SNI), or else the first in the list."`
	ClientCAFile    string             `field:"client_ca_file" doc:"PEM file with CA certificates. Callers need a certificate signed by one of them. Default: none; callers need no certificate."`
	MinVersion      TLSVersion         `field:"min_version" default:"1.2" doc:"Minimum TLS version: 1.2 or 1.3."`
	CheckFilesEvery time.Duration      `field:"check_files" default:"10s" doc:"Interval at which the files are checked. New connections use changed files. Invalid files are logged and ignored."`
}

// RESP configures the listener of resp_addr.
type RESP struct {
	TLS         *ServiceTLS     `field:"tls" doc:"TLS certificates, and client authentication. Default: no TLS."`
	OnFailure   headgate.Policy `field:"on_failure" default:"open" doc:"Policy for CL.THROTTLE while the store is unreachable: open allows, closed denies, local counts in this process."`
	IdleTimeout DurationOrOff   `field:"idle_timeout" default:"10m" doc:"Maximum idle time of a connection between commands, or off."`
}

// Envoy configures Envoy's protocol, on grpc_addr and as JSON on api_addr.
type Envoy struct {
	NoCountDenied   bool            `field:"count_denied,not" default:"true" doc:"With envoy_config, count denied hits too, as envoyproxy/ratelimit does. Rules have count_rejected instead."`
	ResponseHeaders bool            `field:"response_headers" default:"false" doc:"Add RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to responses."`
	DynamicMetadata bool            `field:"dynamic_metadata" default:"false" doc:"Send dynamic_metadata with every response, as envoyproxy/ratelimit does with RESPONSE_DYNAMIC_METADATA. By default only limits with metadata send it."`
	MergeDomains    bool            `field:"merge_domains" default:"false" doc:"With envoy_config, allow several files with the same domain, as envoyproxy/ratelimit does with MERGE_DOMAIN_CONFIG. By default a second file with the same domain is rejected."`
	OnFailure       headgate.Policy `field:"on_failure" default:"open" doc:"With envoy_config, the policy while the store is unreachable: open allows, closed denies, local counts in this process."`
}

// validateService checks the ranges of values. The packages that use the values check them, too, but only errors from
// here have positions in the configuration file.
func (c *Config) validateService() error {
	for _, r := range []struct {
		name             string // path below "service"
		value            int64
		minimum, maximum int64
	}{
		{"max_conns", int64(c.Service.MaxConns), 1, 1_000_000},
		{"max_body", int64(c.Service.MaxBody), 1 << 10, 64 << 20},
		{"max_batch", int64(c.Service.MaxBatch), 1, 100_000},
		{"grpc.max_streams", int64(c.Service.GRPC.MaxStreams), 1, 1 << 20},
	} {
		if r.value != 0 && (r.value < r.minimum || r.value > r.maximum) {
			return c.problemAt("service."+r.name, strconv.FormatInt(r.value, 10), fmt.Sprintf("%d to %d", r.minimum, r.maximum))
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

// validateEnvoy returns an error if there are limits for Envoy but no listener to serve them.
func (c *Config) validateEnvoy() error {
	if c.EnvoyConfig != "" && c.GRPCAddr == Off && c.APIAddr == Off {
		return &valueError{"given while grpc_addr and api_addr are off", "one of them to listen"}
	}
	return nil
}

// ServiceOptions converts t to the type of package service. It returns nil if t is nil.
func (t *ServiceTLS) ServiceOptions() *service.TLS {
	if t == nil {
		return nil
	}
	result := new(service.TLS)
	copyFields(result, *t)
	return result
}

// ServiceOff reports whether the decision service is off.
func (c *Config) ServiceOff() bool { return c.APIAddr == Off && c.GRPCAddr == Off && c.RESPAddr == Off }

// Drain returns the time for which a stopping node still accepts new calls, and the maximum time for the whole stop.
func (c *Config) Drain() (delay, timeout time.Duration) {
	return c.Gateway.DrainDelay, cmp.Or(c.Gateway.DrainTimeout, gateway.DefaultDrainTimeout)
}
