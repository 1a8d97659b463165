package config

import (
	"net/netip"
	"time"

	"github.com/headgate/headgate/rules/file/source"
)

// Gateway configures the gateway. Its fields, and those of the structs in it, have the same names and defaults as in
// gateway.Config.
type Gateway struct {
	Listeners          []Listener    `field:"listeners" doc:"Addresses of the gateway, instead of gateway_addr."`
	Routes             []Route       `field:"routes" doc:"Upstreams by host and path: the route with the most specific host and, of these, the longest path is used."`
	HeaderTimeout      time.Duration `field:"header_timeout" default:"10s" doc:"Time for a client to send a request header, and for the TLS handshake."`
	IdleTimeout        time.Duration `field:"idle_timeout" default:"2m" doc:"How long a connection may be idle between requests."`
	BodyTimeout        time.Duration `field:"body_timeout" default:"30s" doc:"How long a client may be silent while it sends a body."`
	MinBodyRate        Count         `field:"min_body_rate" default:"128" doc:"The lowest average rate of a body in bytes per second, after body_timeout; or off. Streams are exempt."`
	WriteTimeout       time.Duration `field:"write_timeout" default:"30s" doc:"How long a client may read nothing while a response is waiting for it."`
	StreamTimeout      time.Duration `field:"stream_timeout" default:"1h" doc:"How long streams and upgraded connections may be silent."`
	MaxUpgradeAge      time.Duration `field:"max_upgrade_age" doc:"How long an upgraded connection may last in total. Default: unlimited."`
	MaxHeader          Size          `field:"max_header" default:"64KiB" doc:"The longest request header. Longer ones get 431."`
	MaxBody            Size          `field:"max_body" doc:"The longest request body. Longer ones get 413. Default: unlimited, since bodies are never held in memory."`
	MaxConns           Count         `field:"max_conns" default:"10000" doc:"The most client connections at once. Beyond that, connections without a request are closed, those of the address with the most first; if there are none, new ones are refused."`
	MaxConnsPerAddress Count         `field:"max_conns_per_address" doc:"How many of max_conns one address may have, including upgraded ones, or off. For IPv6 a /64 network counts as one address. It does not apply to trusted_proxies and Unix sockets; with proxy_protocol, clients are counted. Default: a quarter of max_conns, but at least 64."`
	MaxStreams         Count         `field:"max_streams" default:"250" doc:"The most requests in flight on one HTTP/2 connection."`
	MaxUpgrades        Count         `field:"max_upgrades" default:"10000" doc:"The most upgraded connections at once. More get 503."`
	Upgrades           []string      `field:"upgrades" default:"websocket" doc:"The protocols that clients may switch to."`
	KeepUnderscores    bool          `field:"keep_underscores" default:"false" doc:"Pass headers with an underscore in their name. Many services read X_User as X-User."`
	OnlyFromProxies    []string      `field:"only_from_proxies" doc:"Headers removed unless a trusted proxy sends them, besides X-Forwarded-* and Forwarded. Default: X-Real-IP, X-Original-URL, X-Original-URI, X-Rewrite-URL, the user_header and the forwarding_header."`
	SendForwarded      bool          `field:"send_forwarded" default:"false" doc:"Add the header Forwarded (RFC 7239) to every request. Default: only where a trusted proxy has sent one."`
	Via                string        `field:"via" doc:"The name added to the header Via. Default: none, and no Via."`
	RequestIDHeader    string        `field:"request_id_header" default:"X-Request-ID" doc:"The header with the id of a request, in both directions."`
	DrainDelay         time.Duration `field:"drain_delay" doc:"How long connections are still accepted after /readyz became 503, so that load balancers notice. Default: none."`
	DrainLinger        time.Duration `field:"drain_linger" default:"1s" doc:"How long idle connections then stay open, so that a request on its way is still served."`
	UpgradeGrace       time.Duration `field:"upgrade_grace" default:"10s" doc:"How long upgraded connections stay open after that."`
	DrainTimeout       time.Duration `field:"drain_timeout" default:"30s" doc:"How long draining may take in total; then the remaining connections are closed."`
	AccessLog          *AccessLog    `field:"access_log" doc:"Which requests are logged. Default: none."`
}

// A Listener is an address of the gateway.
type Listener struct {
	Address       string         `field:"addr" doc:"host:port, :port, or unix: and a path. Port 0 picks a free one."`
	TLS           *TLS           `field:"tls" doc:"Certificates. Default: no TLS."`
	NoHTTP2       bool           `field:"http2,not" default:"true" doc:"Offer HTTP/2: over TLS by ALPN, otherwise to clients that start with it (h2c)."`
	ProxyProtocol []netip.Prefix `field:"proxy_protocol" doc:"Networks of load balancers that start each connection with the PROXY protocol. Default: none."`
}

// TLS are the certificates of a listener.
type TLS struct {
	Certificates []CertificateFiles `field:"certificates" doc:"Certificates and their keys. A client gets the first that matches the name it asks for, else the first."`
	MinVersion   TLSVersion         `field:"min_version" default:"1.2" doc:"The oldest accepted TLS version: 1.2 or 1.3."`
	CheckFiles   time.Duration      `field:"check_files" default:"10s" doc:"How often the files are checked. New connections use changed files; invalid files are logged and ignored."`
}

// CertificateFiles is a certificate and its key.
type CertificateFiles struct {
	CertFile string `field:"cert_file" doc:"The certificate in PEM, followed by its intermediates."`
	KeyFile  string `field:"key_file" doc:"Its key in PEM."`
}

// A Route has the upstreams for a host and a path prefix.
type Route struct {
	Name                  string        `field:"name" doc:"The name of the route in logs and metrics. Default: its host and path."`
	Host                  string        `field:"host" doc:"A name such as api.example.com, or *.example.com for all subdomains. Default: every host."`
	Path                  string        `field:"path" default:"/" doc:"The prefix, in whole segments: /api matches /api/x but not /apix."`
	Upstreams             []Upstream    `field:"upstreams" doc:"Servers, used in turn: URLs, or mappings of url and tls."`
	SendHost              string        `field:"send_host" doc:"The Host sent to upstreams. Default: the client's."`
	DialTimeout           time.Duration `field:"dial_timeout" default:"5s" doc:"Time to connect to an upstream, including the TLS handshake."`
	ResponseHeaderTimeout time.Duration `field:"response_header_timeout" default:"60s" doc:"Time from the end of the request to the header of the upstream's response."`
	TotalTimeout          time.Duration `field:"total_timeout" doc:"How long a request may take in total. Default: unlimited."`
	UpstreamIdle          time.Duration `field:"upstream_idle" default:"60s" doc:"How long an unused connection to an upstream is kept. It should be shorter than the upstream's own idle timeout."`
	UpstreamConns         Count         `field:"upstream_conns" default:"1024" doc:"The most connections to one upstream."`
	UploadsPerClient      Count         `field:"uploads_per_client" doc:"The most concurrent uploads of one client, by address, or off: requests with a body of more than 16 KiB or of unknown length to HTTP/1.1 upstreams. More get 429. Default: a quarter of the connections of all upstreams."`
	MaxBody               Size          `field:"max_body" doc:"gateway.max_body for this route, or off for none."`
	Retries               Count         `field:"retries" default:"1" doc:"On how many other upstreams a failed request is retried, or off. Only if nothing of it was sent, or it is safe to repeat."`
	Health                *Health       `field:"health" doc:"Health checks. Default: none."`
	Ejection              Ejection      `field:"ejection" doc:"When a failing upstream is ejected."`
}

// An Upstream is a server. In the file it is a URL, or a mapping of url and tls.
type Upstream struct {
	URL string       `field:"url" doc:"http://host:port, https://, h2c:// and h2:// for HTTP/2, unix:/path or unix+h2c:/path."`
	TLS *UpstreamTLS `field:"tls" doc:"Certificates, for https and h2. Default: the system's roots and the host name."`
}

// UpstreamTLS configures how the gateway verifies an upstream, and how it authenticates itself.
type UpstreamTLS struct {
	CAFile             string `field:"ca_file" doc:"CA certificates for the upstream, in PEM. Default: the system's."`
	ServerName         string `field:"server_name" doc:"The name in the upstream's certificate. Default: the host in its URL."`
	CertFile           string `field:"cert_file" doc:"A client certificate for the upstream, with key_file."`
	KeyFile            string `field:"key_file" doc:"The key of cert_file."`
	InsecureSkipVerify bool   `field:"insecure_skip_verify" default:"false" doc:"Do not verify the upstream's certificate. For tests only."`
}

// Health configures health checks of upstreams.
type Health struct {
	Path      string        `field:"path" doc:"The path to request, such as /healthz. Status 200 to 399 is healthy."`
	Host      string        `field:"host" doc:"The Host to send. Default: the route's send_host, or the upstream's."`
	Interval  time.Duration `field:"interval" default:"5s" doc:"The time between two checks of an upstream."`
	Timeout   time.Duration `field:"timeout" default:"2s" doc:"How long a check may take."`
	Failures  Count         `field:"failures" default:"3" doc:"After how many failed checks in a row an upstream is down."`
	Successes Count         `field:"successes" default:"2" doc:"After how many good ones in a row it is back."`
}

// Ejection configures when a failing upstream gets no requests.
type Ejection struct {
	After      Count         `field:"after" default:"5" doc:"After how many failed requests in a row, or off. The only upstream of a route is never ejected."`
	Count5xx   bool          `field:"count_5xx" default:"false" doc:"Count responses of 500 and above as failures too."`
	For        time.Duration `field:"for" default:"10s" doc:"How long it is ejected the first time. Twice as long each time it fails again, up to 16 times."`
	SlowReturn Span          `field:"slow_return" default:"30s" doc:"How long a returning upstream takes to get its full share again, or off."`
}

// Answers configures the response headers about limits.
type Answers struct {
	NoRateLimit  bool          `field:"ratelimit,not" default:"true" doc:"Send RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers)."`
	NoXRateLimit bool          `field:"x_ratelimit,not" default:"true" doc:"Send X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset."`
	ResetDelta   Reset         `field:"reset" default:"epoch" doc:"The form of X-RateLimit-Reset: epoch (seconds since 1970) or delta (seconds from now)."`
	Jitter       time.Duration `field:"retry_after_jitter" doc:"The largest random addition to Retry-After, so that clients denied together do not come back together. At most 1h."`
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
	Every     Count `field:"every" default:"100" doc:"One in this many requests is logged, 1 for all. Requests that got 500 or above, were cut off or failed are always logged."`
	PerSecond Count `field:"per_second" default:"1000" doc:"The most lines per second."`
	Queue     Count `field:"queue" default:"4096" doc:"The most lines waiting to be written. More are dropped and counted; requests never wait."`
	Query     bool  `field:"query" default:"false" doc:"Log the query too, which often contains secrets."`
}
