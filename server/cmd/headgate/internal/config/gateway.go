package config

import (
	"net/netip"
	"time"

	"github.com/headgate/headgate/rules/file/source"
)

// Gateway configures the gateway. It has the fields and defaults of gateway.Config, and so do the structs in it. The
// tag ",not" inverts a setting: http2: false sets NoHTTP2.
type Gateway struct {
	Listeners          []Listener    `field:"listeners" doc:"Listeners of the gateway, instead of gateway_addr."`
	Routes             []Route       `field:"routes" doc:"Upstreams by host and path. The most specific host wins, then the longest path."`
	HeaderTimeout      time.Duration `field:"header_timeout" default:"10s" doc:"Maximum time for a client to send the request header, and for the TLS handshake."`
	IdleTimeout        time.Duration `field:"idle_timeout" default:"2m" doc:"Maximum idle time of a connection between requests."`
	BodyTimeout        time.Duration `field:"body_timeout" default:"30s" doc:"Maximum time between two reads while a client sends a request body."`
	MinBodyRate        CountOrOff    `field:"min_body_rate" default:"128" doc:"Minimum average rate of a request body in bytes per second, enforced once a body has taken longer than body_timeout, or off. It does not apply to streams."`
	WriteTimeout       time.Duration `field:"write_timeout" default:"30s" doc:"Maximum time that a response waits for the client to read."`
	StreamTimeout      time.Duration `field:"stream_timeout" default:"1h" doc:"Maximum idle time of streams and upgraded connections."`
	MaxUpgradeAge      time.Duration `field:"max_upgrade_age" doc:"Maximum lifetime of an upgraded connection. Default: unlimited."`
	MaxHeader          Size          `field:"max_header" default:"64KiB" doc:"Maximum size of the request header. Larger headers are rejected with 431."`
	MaxBody            Size          `field:"max_body" doc:"Maximum size of the request body. Larger bodies are rejected with 413. Default: unlimited; bodies are streamed and not buffered in memory."`
	MaxConns           CountOrOff    `field:"max_conns" default:"10000" doc:"Maximum number of client connections. Above it, connections without an active request are closed, starting with the address that has the most connections. If there are none, new connections are refused."`
	MaxConnsPerAddress CountOrOff    `field:"max_conns_per_address" doc:"Maximum number of connections from one address, including upgraded ones, or off. An IPv6 /64 network counts as one address. Trusted proxies and Unix sockets are exempt. With proxy_protocol, the address is that of the client. Default: a quarter of max_conns, at least 64."`
	MaxStreams         CountOrOff    `field:"max_streams" default:"250" doc:"Maximum number of concurrent requests on one HTTP/2 connection."`
	MaxUpgrades        CountOrOff    `field:"max_upgrades" default:"10000" doc:"Maximum number of upgraded connections. Above it, upgrades are rejected with 503."`
	Upgrades           []string      `field:"upgrades" default:"websocket" doc:"Protocols that clients may upgrade to."`
	KeepUnderscores    bool          `field:"keep_underscores" default:"false" doc:"Forward headers with an underscore in their name. By default they are removed, because many services read X_User as X-User."`
	OnlyFromProxies    []string      `field:"only_from_proxies" doc:"Headers accepted only from trusted proxies, in addition to X-Forwarded-* and Forwarded. They are removed from other requests. Default: X-Real-IP, X-Original-URL, X-Original-URI, X-Rewrite-URL, identity.user_header and identity.forwarding_header."`
	SendForwarded      bool          `field:"send_forwarded" default:"false" doc:"Add the Forwarded header (RFC 7239) to every request. By default it is only extended if a trusted proxy has sent one."`
	Via                string        `field:"via" doc:"Name to add to the Via header. Default: none; no Via header is added."`
	RequestIDHeader    string        `field:"request_id_header" default:"X-Request-ID" doc:"Header with the request ID, in requests and responses."`
	DrainDelay         time.Duration `field:"drain_delay" doc:"How long the gateway still accepts connections after /readyz has changed to 503, so that load balancers notice. Default: 0."`
	DrainLinger        time.Duration `field:"drain_linger" default:"1s" doc:"How long idle connections stay open after drain_delay, so that requests in transit are still served."`
	UpgradeGrace       time.Duration `field:"upgrade_grace" default:"10s" doc:"How long upgraded connections stay open after drain_linger."`
	DrainTimeout       time.Duration `field:"drain_timeout" default:"30s" doc:"Maximum duration of the whole drain. Connections that are still open are then closed."`
	AccessLog          *AccessLog    `field:"access_log" doc:"Access log. Default: off."`
}

// A Listener is an address of the gateway.
type Listener struct {
	Address       string         `field:"addr" doc:"Listen address: host:port, :port or unix:PATH. Port 0 picks a free port."`
	TLS           *TLS           `field:"tls" doc:"Certificates. Default: no TLS."`
	NoHTTP2       bool           `field:"http2,not" default:"true" doc:"Offer HTTP/2: with TLS through ALPN, without TLS by prior knowledge (h2c)."`
	ProxyProtocol []netip.Prefix `field:"proxy_protocol" doc:"Networks of load balancers that start each connection with a PROXY protocol header. Default: none."`
}

// TLS configures TLS for a listener.
type TLS struct {
	Certificates    []CertificateFiles `field:"certificates" doc:"Certificates with their keys. A client receives the first certificate that matches the server name it requests (SNI), or else the first in the list."`
	MinVersion      TLSVersion         `field:"min_version" default:"1.2" doc:"Minimum TLS version: 1.2 or 1.3."`
	CheckFilesEvery time.Duration      `field:"check_files" default:"10s" doc:"Interval at which the files are checked. New connections use changed files. Invalid files are logged and ignored."`
}

// CertificateFiles is a certificate and its key.
type CertificateFiles struct {
	CertFile string `field:"cert_file" doc:"PEM file with the certificate, followed by its intermediates."`
	KeyFile  string `field:"key_file" doc:"PEM file with the private key."`
}

// A Route sends the requests for a host and a path prefix to upstreams.
type Route struct {
	Name                  string        `field:"name" doc:"Name of the route in logs and metrics. Default: its host and path."`
	Host                  string        `field:"host" doc:"Host name such as api.example.com, or *.example.com for all subdomains. Default: every host."`
	Path                  string        `field:"path" default:"/" doc:"Path prefix of whole segments: /api matches /api/x but not /apix."`
	Upstreams             []Upstream    `field:"upstreams" doc:"Upstream servers, used in turn: URLs, or mappings with url and tls."`
	SendHost              string        `field:"send_host" doc:"Host header sent to the upstreams. Default: the client's."`
	DialTimeout           time.Duration `field:"dial_timeout" default:"5s" doc:"Timeout for connecting to an upstream, including the TLS handshake."`
	ResponseHeaderTimeout time.Duration `field:"response_header_timeout" default:"60s" doc:"Maximum time from the end of the request to the response header of the upstream."`
	TotalTimeout          time.Duration `field:"total_timeout" doc:"Maximum duration of a request. Default: unlimited."`
	UpstreamIdle          time.Duration `field:"upstream_idle" default:"60s" doc:"How long unused upstream connections stay open. Choose a shorter time than the upstream's own idle timeout."`
	UpstreamConns         CountOrOff    `field:"upstream_conns" default:"1024" doc:"Maximum number of connections to one upstream."`
	UploadsPerClient      CountOrOff    `field:"uploads_per_client" doc:"Maximum number of concurrent uploads of one client address, or off. Uploads are requests to HTTP/1.1 upstreams with a body of more than 16 KiB or of unknown length. Above it, requests are rejected with 429. Default: a quarter of the upstream_conns of all HTTP/1.1 upstreams of the route together."`
	MaxBody               Size          `field:"max_body" doc:"Maximum size of the request body on this route, or off for unlimited. Default: that of gateway.max_body."`
	Retries               CountOrOff    `field:"retries" default:"1" doc:"Number of other upstreams on which a failed request is retried, or off. A request is retried only if no part of it was sent, or if it is idempotent."`
	Health                *Health       `field:"health" doc:"Active health checks. Default: none."`
	Ejection              Ejection      `field:"ejection" doc:"Passive health checks: when a failing upstream is ejected."`
}

// An Upstream is a server. In the file it is a URL, or a mapping of url and tls.
type Upstream struct {
	URL string       `field:"url" doc:"URL of the server: http://host:port, https://, h2c:// and h2:// for HTTP/2, unix:/path or unix+h2c:/path."`
	TLS *UpstreamTLS `field:"tls" doc:"TLS options for https and h2. Default: the system's root certificates and the host name of the URL."`
}

// UpstreamTLS configures how the gateway verifies an upstream, and the certificate that it sends to the upstream.
type UpstreamTLS struct {
	CAFile             string `field:"ca_file" doc:"PEM file with the CA certificates that sign the upstream's certificate. Default: the system's."`
	ServerName         string `field:"server_name" doc:"Expected name in the upstream's certificate. Default: the host in its URL."`
	CertFile           string `field:"cert_file" doc:"PEM file with the client certificate sent to the upstream. It needs key_file."`
	KeyFile            string `field:"key_file" doc:"PEM file with the private key of cert_file."`
	InsecureSkipVerify bool   `field:"insecure_skip_verify" default:"false" doc:"Do not verify the upstream's certificate. For tests only."`
}

// Health configures health checks of upstreams.
type Health struct {
	Path      string        `field:"path" doc:"Path to request, such as /healthz. Status codes from 200 to 399 are healthy."`
	Host      string        `field:"host" doc:"Host header of the request. Default: the route's send_host, or the upstream's host."`
	Interval  time.Duration `field:"interval" default:"5s" doc:"Interval between two checks of an upstream."`
	Timeout   time.Duration `field:"timeout" default:"2s" doc:"Timeout of a check."`
	Failures  CountOrOff    `field:"failures" default:"3" doc:"Number of consecutive failures after which an upstream is down."`
	Successes CountOrOff    `field:"successes" default:"2" doc:"Number of consecutive successes after which it is up again."`
}

// Ejection configures when a failing upstream gets no requests.
type Ejection struct {
	After      CountOrOff    `field:"after" default:"5" doc:"Number of consecutive failed requests after which an upstream is ejected, or off. The only upstream of a route is never ejected."`
	Count5xx   bool          `field:"count_5xx" default:"false" doc:"Count responses with status 500 and above as failures."`
	For        time.Duration `field:"for" default:"10s" doc:"Duration of the first ejection. It doubles each time the upstream fails again, up to 16 times the first duration."`
	SlowReturn DurationOrOff `field:"slow_return" default:"30s" doc:"How long a recovered upstream takes to receive its full share of requests again, or off."`
}

// Responses configures the response headers about limits.
type Responses struct {
	NoRateLimit  bool          `field:"ratelimit,not" default:"true" doc:"Send RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers)."`
	NoXRateLimit bool          `field:"x_ratelimit,not" default:"true" doc:"Send X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset."`
	ResetFormat  ResetFormat   `field:"reset" default:"epoch" doc:"Format of X-RateLimit-Reset: epoch (seconds since 1970) or delta (seconds from now)."`
	Jitter       time.Duration `field:"retry_after_jitter" doc:"Maximum random time added to Retry-After, so that clients denied together do not retry together. At most 1h."`
}

func decodeUpstream(d *source.Decoder, n *source.Node, path string, into *Upstream) {
	if n.Kind == source.Scalar {
		into.URL = n.Text
		return
	}
	d.Fields(n, path, into)
}

func encodeUpstream(c *source.Codec, u Upstream) *source.Node {
	if u.TLS == nil {
		return source.Text(u.URL)
	}
	return c.Struct(u)
}

// AccessLog configures which requests are logged.
type AccessLog struct {
	Every     CountOrOff `field:"every" default:"100" doc:"Log one in this many requests; 1 logs all. Requests with status 500 and above, and requests that failed or were aborted, are always logged."`
	PerSecond CountOrOff `field:"per_second" default:"1000" doc:"Maximum number of log lines per second."`
	Queue     CountOrOff `field:"queue" default:"4096" doc:"Maximum number of log lines waiting to be written. Further lines are dropped and counted; requests never wait."`
	Query     bool       `field:"query" default:"false" doc:"Log the query string. It often contains secrets."`
}
