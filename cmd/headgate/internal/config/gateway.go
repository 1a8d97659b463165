package config

import (
	"net/netip"
	"time"

	"github.com/headgate/headgate/rules/source"
)

// Gateway says where clients connect and who serves them. Its fields are those of gateway.Config, by name, and so are
// their defaults; the same is true of what is below it.
type Gateway struct {
	Listeners          []Listener    `field:"listeners" doc:"Where clients connect, in place of gateway_addr."`
	Routes             []Route       `field:"routes" doc:"Which upstreams a request goes to: the route with the most specific host and, of these, the longest path."`
	HeaderTimeout      time.Duration `field:"header_timeout" default:"10s" doc:"How long a client may take for the header of a request, and for the handshake of TLS."`
	IdleTimeout        time.Duration `field:"idle_timeout" default:"2m" doc:"How long a connection may wait for its next request."`
	BodyTimeout        time.Duration `field:"body_timeout" default:"30s" doc:"How long a client may be silent while it sends a body."`
	MinBodyRate        Count         `field:"min_body_rate" default:"128" doc:"How many bytes a second a client must send of a body on the whole, after body_timeout; or off. Streams are free of it."`
	WriteTimeout       time.Duration `field:"write_timeout" default:"30s" doc:"How long a client may take none of the answer that is there for it."`
	StreamTimeout      time.Duration `field:"stream_timeout" default:"1h" doc:"How long streams and upgraded connections may be silent."`
	MaxUpgradeAge      time.Duration `field:"max_upgrade_age" doc:"How long an upgraded connection may last on the whole. Default: as long as it likes."`
	MaxHeader          Size          `field:"max_header" default:"64KiB" doc:"How long the header of a request may be. A longer one is answered with 431."`
	MaxBody            Size          `field:"max_body" doc:"How long the body of a request may be. A longer one is answered with 413. Default: as long as it likes, since bodies are never held in memory."`
	MaxConns           Count         `field:"max_conns" default:"10000" doc:"How many connections of clients there may be at once. For more, connections that serve no request are closed, those of the address with the most first; if there are none, the new ones are."`
	MaxConnsPerAddress Count         `field:"max_conns_per_address" doc:"How many of max_conns one address may have, upgraded ones too, or off. A network of 64 bits counts as one address of IPv6. It does not hold for trusted_proxies and Unix sockets; with proxy_protocol, clients are counted. Default: a quarter of max_conns, but at least 64."`
	MaxStreams         Count         `field:"max_streams" default:"250" doc:"How many requests one connection of HTTP/2 may have in flight."`
	MaxUpgrades        Count         `field:"max_upgrades" default:"10000" doc:"How many upgraded connections there may be at once. More are answered with 503."`
	Upgrades           []string      `field:"upgrades" default:"websocket" doc:"The protocols that clients may switch to."`
	KeepUnderscores    bool          `field:"keep_underscores" default:"false" doc:"Let headers pass whose names hold an underscore. Many services take X_User for X-User."`
	OnlyFromProxies    []string      `field:"only_from_proxies" doc:"Headers that are removed unless a trusted proxy sends them, besides X-Forwarded-* and Forwarded. Default: X-Real-IP, X-Original-URL, X-Original-URI, X-Rewrite-URL, the user_header and the forwarding_header."`
	SendForwarded      bool          `field:"send_forwarded" default:"false" doc:"Add the header Forwarded (RFC 7239) to every request. Default: only where a trusted proxy has sent one."`
	Via                string        `field:"via" doc:"The name that is added to the header Via. Default: none, and no Via."`
	RequestIDHeader    string        `field:"request_id_header" default:"X-Request-ID" doc:"The header that has the id of a request, both ways."`
	DrainDelay         time.Duration `field:"drain_delay" doc:"How long connections are still accepted after /readyz has become 503, so that load balancers see it. Default: none."`
	DrainLinger        time.Duration `field:"drain_linger" default:"1s" doc:"How long idle connections are then left open, so that a request which is on its way is still answered."`
	UpgradeGrace       time.Duration `field:"upgrade_grace" default:"10s" doc:"How long upgraded connections stay open after that."`
	DrainTimeout       time.Duration `field:"drain_timeout" default:"30s" doc:"How long all of it may take, after which what is left is cut off."`
	AccessLog          *AccessLog    `field:"access_log" doc:"Which requests are logged. Default: none."`
}

// A Listener is where clients connect.
type Listener struct {
	Address       string         `field:"addr" doc:"host:port, :port, or unix: and a path. Port 0 picks one."`
	TLS           *TLS           `field:"tls" doc:"With what to prove who we are. Default: no TLS."`
	NoHTTP2       bool           `field:"http2,not" default:"true" doc:"Speak HTTP/2: over TLS by ALPN, else with clients that begin with it (h2c)."`
	ProxyProtocol []netip.Prefix `field:"proxy_protocol" doc:"Networks of load balancers that begin each connection with the PROXY protocol. Default: it is not read."`
}

// TLS are the certificates of a listener.
type TLS struct {
	Certificates []CertificateFiles `field:"certificates" doc:"Certificates and their keys. A client gets the first that is good for the name it asks for, or the first of all."`
	MinVersion   TLSVersion         `field:"min_version" default:"1.2" doc:"The oldest version of TLS that is spoken: 1.2 or 1.3."`
	CheckFiles   time.Duration      `field:"check_files" default:"10s" doc:"How often the files are looked at. When they change, new connections get the new ones; bad files change nothing, and the log says so."`
}

// CertificateFiles is a certificate and its key.
type CertificateFiles struct {
	CertFile string `field:"cert_file" doc:"The certificate in PEM, followed by those of who issued it."`
	KeyFile  string `field:"key_file" doc:"Its key in PEM."`
}

// A Route is for a host and the paths below a prefix.
type Route struct {
	Name                  string        `field:"name" doc:"How the route is called in logs and figures. Default: its host and path."`
	Host                  string        `field:"host" doc:"A name such as api.example.com, or *.example.com for all below. Default: every host."`
	Path                  string        `field:"path" default:"/" doc:"The prefix, in whole segments: /api is also for /api/x, and not for /apix."`
	Upstreams             []Upstream    `field:"upstreams" doc:"Servers that take turns: URLs, or mappings of url and tls."`
	SendHost              string        `field:"send_host" doc:"The Host that upstreams are sent. Default: the client's."`
	DialTimeout           time.Duration `field:"dial_timeout" default:"5s" doc:"How long a connection to an upstream may take, with its handshake."`
	ResponseHeaderTimeout time.Duration `field:"response_header_timeout" default:"60s" doc:"How long an upstream may take from the end of the request to the header of its answer."`
	TotalTimeout          time.Duration `field:"total_timeout" doc:"How long a request may take on the whole. Default: as long as it likes."`
	UpstreamIdle          time.Duration `field:"upstream_idle" default:"60s" doc:"How long an unused connection to an upstream is kept. It should be shorter than the upstream's own patience."`
	UpstreamConns         Count         `field:"upstream_conns" default:"1024" doc:"How many connections an upstream may have at once."`
	UploadsPerClient      Count         `field:"uploads_per_client" doc:"How many uploads of one client, by address, may be under way at once, or off: requests with a body of more than 16 KiB or of unknown length to upstreams of HTTP/1.1. More are answered with 429. Default: a quarter of the connections of all upstreams."`
	MaxBody               Size          `field:"max_body" doc:"gateway.max_body for this route, or off for none."`
	Retries               Count         `field:"retries" default:"1" doc:"On how many other upstreams a request is tried again that one did not take, or off. Only if nothing of it was sent, or it may be repeated."`
	Health                *Health       `field:"health" doc:"How upstreams are checked. Default: they are not."`
	Ejection              Ejection      `field:"ejection" doc:"When an upstream that fails is left out."`
}

// An Upstream is a server. In the file it is a URL, or a mapping if there is more to say.
type Upstream struct {
	URL string       `field:"url" doc:"http://host:port, https://, h2c:// and h2:// for HTTP/2, unix:/path or unix+h2c:/path."`
	TLS *UpstreamTLS `field:"tls" doc:"Whom to believe, for https and h2. Default: the system's roots and the host's own name."`
}

// UpstreamTLS says how an upstream proves who it is.
type UpstreamTLS struct {
	CAFile             string `field:"ca_file" doc:"Certificates of those who may vouch for the upstream, in PEM. Default: those of the system."`
	ServerName         string `field:"server_name" doc:"The name that the upstream must prove. Default: the host in its URL."`
	CertFile           string `field:"cert_file" doc:"Proves to the upstream who we are, with key_file."`
	KeyFile            string `field:"key_file" doc:"The key of cert_file."`
	InsecureSkipVerify bool   `field:"insecure_skip_verify" default:"false" doc:"Believe every upstream. For tests only."`
}

// Health says how upstreams are checked.
type Health struct {
	Path      string        `field:"path" doc:"What is asked for, such as /healthz. Answers of 200 to 399 are well."`
	Host      string        `field:"host" doc:"The Host that is sent. Default: the route's send_host, or the upstream's."`
	Interval  time.Duration `field:"interval" default:"5s" doc:"The time between two checks of an upstream."`
	Timeout   time.Duration `field:"timeout" default:"2s" doc:"How long a check may take."`
	Failures  Count         `field:"failures" default:"3" doc:"After how many failed checks in a row an upstream is down."`
	Successes Count         `field:"successes" default:"2" doc:"After how many good ones in a row it is back."`
}

// Ejection says when an upstream that fails is left out.
type Ejection struct {
	After      Count         `field:"after" default:"5" doc:"How many requests in a row must fail, or off. A route with one upstream leaves nobody out."`
	Count5xx   bool          `field:"count_5xx" default:"false" doc:"Count answers of 500 and above as failures too."`
	For        time.Duration `field:"for" default:"10s" doc:"How long it is left out for the first time. If it fails again, twice as long, up to 16 times."`
	SlowReturn Span          `field:"slow_return" default:"30s" doc:"How long it takes one that is back to get its full share again, or off."`
}

// Answers says what clients are told.
type Answers struct {
	NoRateLimit  bool          `field:"ratelimit,not" default:"true" doc:"Send RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers)."`
	NoXRateLimit bool          `field:"x_ratelimit,not" default:"true" doc:"Send X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset."`
	ResetDelta   Reset         `field:"reset" default:"epoch" doc:"What X-RateLimit-Reset is: epoch (seconds since 1970) or delta (seconds from now)."`
	Jitter       time.Duration `field:"retry_after_jitter" doc:"The most that is added to Retry-After by chance, so that those who were denied together do not come back together. At most 1h."`
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

// AccessLog says which requests are logged.
type AccessLog struct {
	Every     Count `field:"every" default:"100" doc:"Of how many requests one is logged, 1 for all. Those that were answered with 500 or above, cut off or not served because of an error are logged in any case."`
	PerSecond Count `field:"per_second" default:"1000" doc:"How many lines there are a second at most, whatever happens."`
	Queue     Count `field:"queue" default:"4096" doc:"How many lines may wait to be written. More are dropped and counted, and no request waits."`
	Query     bool  `field:"query" default:"false" doc:"Log the query too, which often holds secrets."`
}
