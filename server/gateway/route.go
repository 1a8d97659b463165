package gateway

import (
	"crypto/tls"
	"net/url"
	"strings"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/gateway/internal/transport"
	"github.com/headgate/headgate/server/internal/certs"
)

// Defaults of a Route.
const (
	DefaultDialTimeout           = 5 * time.Second
	DefaultResponseHeaderTimeout = 60 * time.Second
	DefaultUpstreamIdle          = 60 * time.Second
	DefaultUpstreamConns         = 1024
	DefaultRetries               = 1
	DefaultHealthInterval        = 5 * time.Second
	DefaultHealthTimeout         = 2 * time.Second
	DefaultFailures              = 3
	DefaultSuccesses             = 2
	DefaultEjectAfter            = 5
	DefaultEjectFor              = 10 * time.Second
	DefaultSlowReturn            = 30 * time.Second
)

// A Route sends the requests for a host and a path prefix to upstreams. If several routes match, the gateway uses the
// one with the most specific host, and among those the one with the longest path.
type Route struct {
	// Name is the name of the route in logs and metrics. Default its host and path.
	Name string
	// Host is a name such as api.example.com, or *.example.com for all subdomains. Default all requests, with any host or
	// none.
	Host string
	// Path is a prefix of whole segments: /api matches /api and /api/x, but not /apix. It is compared with the canonical
	// path, which is also the path that upstreams get. Default /.
	Path string
	// Upstreams share the requests of the route. At least one is required.
	Upstreams []Upstream
	// SendHost is the Host header that upstreams get. Default the client's.
	SendHost string

	// DialTimeout is the maximum time to connect to an upstream, including the TLS handshake. Default DefaultDialTimeout.
	DialTimeout time.Duration
	// ResponseHeaderTimeout is the maximum time from the end of the request to the header of the response. Default
	// DefaultResponseHeaderTimeout.
	ResponseHeaderTimeout time.Duration
	// TotalTimeout is the maximum duration of a request and its response together. It does not apply to upgraded
	// connections. Default 0: no maximum.
	TotalTimeout time.Duration
	// UpstreamIdle is the time for which an idle connection to an upstream is kept. It should be shorter than the idle
	// timeout of the upstream. Default DefaultUpstreamIdle.
	UpstreamIdle time.Duration
	// UpstreamConns is the maximum number of connections to an upstream. If none is free, a request waits for one, at most
	// DialTimeout. Default DefaultUpstreamConns.
	UpstreamConns int
	// UploadsPerClient is the maximum number of concurrent uploads of one client. Further uploads get a 429. An upload is
	// a request with a body of more than 16 KiB or of unknown length. It holds a connection to an HTTP/1.1 upstream until
	// the gateway has received the whole body. A client is an IPv4 address or an IPv6 /64 network. Default a quarter of
	// the connections to all upstreams of the route; negative for no limit.
	UploadsPerClient int
	// MaxBody replaces Config.MaxBody for this route. Default Config.MaxBody; negative for no limit.
	MaxBody int64

	// Retries is the maximum number of other upstreams to try after a failure. A request is retried if no part of it was
	// sent. It is also retried if it is idempotent (GET, HEAD, OPTIONS, PUT or DELETE without a body) and no part of a
	// response has arrived. It is not retried after a timeout. Default DefaultRetries; negative for none.
	Retries int
	// Health configures health checks of the upstreams. Default nil: no checks.
	Health *Health
	// Ejection configures when a failing upstream gets no requests for a while.
	Ejection Ejection
}

// An Upstream is a server that requests are sent to.
type Upstream struct {
	// URL is http://host:port, https://host:port, h2c://host:port for HTTP/2 without TLS, h2://host:port for HTTP/2 over
	// TLS, unix:/path for HTTP/1.1 on a Unix socket, or unix+h2c:/path for HTTP/2 on a Unix socket.
	URL string
	// TLS configures the certificates for https and h2. Default the system's CA certificates and the host name of the URL.
	TLS *UpstreamTLS
}

// UpstreamTLS configures how the gateway verifies an upstream, and how it authenticates itself to the upstream.
type UpstreamTLS struct {
	// CAFile has the CA certificates that may sign the upstream's certificate, in PEM. Default those of the system.
	CAFile string
	// ServerName is the name that the upstream's certificate must have. Default the host in its URL.
	ServerName string
	// CertFile and KeyFile are the gateway's client certificate and its key, in PEM. Default none.
	CertFile, KeyFile string
	// InsecureSkipVerify accepts any certificate. For tests only.
	InsecureSkipVerify bool
}

// Health configures health checks: GET requests to each upstream. A status of 200 to 399 is a success. Upstreams count
// as healthy until checks fail.
type Health struct {
	// Path is the path of the check, such as /healthz. It may have a query.
	Path string
	// Host is the Host header of the check. Default the route's SendHost, or the upstream's host.
	Host string
	// Interval is the time between two checks of an upstream. It varies randomly by a tenth, so that many gateways do not
	// check at the same time. Default DefaultHealthInterval.
	Interval time.Duration
	// Timeout is the maximum duration of a check. Default DefaultHealthTimeout, or Interval if that is shorter.
	Timeout time.Duration
	// Failures is the number of consecutive failed checks after which an upstream is down. Default DefaultFailures.
	Failures int
	// Successes is the number of consecutive successful checks after which an upstream is up again. Default
	// DefaultSuccesses.
	Successes int
}

// Ejection configures when an upstream gets no requests for a while because requests to it failed. If all upstreams are
// ejected, all are tried: only health checks can take the last upstream out of service.
type Ejection struct {
	// After is the number of consecutive failures that eject an upstream. A request fails if the upstream is unreachable,
	// closes the connection early, times out, or sends invalid HTTP. If a route has only one upstream, it is never
	// ejected. Default DefaultEjectAfter; negative for no ejection.
	After int
	// Count5xx also counts responses with a status of 500 and above as failures.
	Count5xx bool
	// For is the time of the first ejection. Each time that the upstream fails again after its return, the time doubles,
	// up to 16 times For. Default DefaultEjectFor.
	For time.Duration
	// SlowReturn is the time after an ejection or failed health checks in which the upstream's share of requests grows
	// from a tenth of its normal share to the full share. Default DefaultSlowReturn; negative for the full share
	// immediately.
	SlowReturn time.Duration
}

func (r *Route) setDefaults(c *Config) {
	setDefault(&r.Path, "/")
	setDefault(&r.Name, r.Host+r.Path)
	setDefault(&r.DialTimeout, DefaultDialTimeout)
	setDefault(&r.ResponseHeaderTimeout, DefaultResponseHeaderTimeout)
	setDefault(&r.UpstreamIdle, DefaultUpstreamIdle)
	setDefault(&r.UpstreamConns, DefaultUpstreamConns)
	setDefault(&r.MaxBody, c.MaxBody)
	setDefault(&r.Retries, DefaultRetries)
	setDefault(&r.Ejection.After, DefaultEjectAfter)
	setDefault(&r.Ejection.For, DefaultEjectFor)
	setDefault(&r.Ejection.SlowReturn, DefaultSlowReturn)
	r.Host = strings.ToLower(r.Host)
	if r.Health != nil {
		h := *r.Health
		setDefault(&h.Interval, DefaultHealthInterval)
		setDefault(&h.Timeout, min(DefaultHealthTimeout, h.Interval))
		setDefault(&h.Failures, DefaultFailures)
		setDefault(&h.Successes, DefaultSuccesses)
		setDefault(&h.Host, r.SendHost)
		r.Health = &h
	}
}

func (r *Route) validate(errs *configErrors, field string) {
	if r.Host != "" {
		name := strings.TrimPrefix(r.Host, "*.")
		if canonical, err := identity.CanonicalHost(name); err != nil || canonical != name {
			errs.add(field+".Host", quote(r.Host), "a name such as api.example.com or *.example.com, without a port")
		}
	}
	// Use the strictest path rules, so that a prefix means the same under any configured path rules.
	canonical, err := identity.CanonicalPath(r.Path, identity.PathRules{})
	if err != nil || canonical != r.Path || r.Path[0] != '/' {
		errs.add(field+".Path", quote(r.Path), "a canonical path such as /api")
	}
	if r.SendHost != "" {
		if _, err := identity.CanonicalHost(r.SendHost); err != nil {
			errs.add(field+".SendHost", quote(r.SendHost), "a host such as api.example.com, with or without a port")
		}
	}
	if len(r.Upstreams) == 0 {
		errs.add(field+".Upstreams", "", "at least one")
	}
	seen := make(map[string]bool, len(r.Upstreams))
	for i := range r.Upstreams {
		u := &r.Upstreams[i]
		u.validate(errs, indexed(field+".Upstreams", i))
		if seen[u.URL] {
			errs.add(indexed(field+".Upstreams", i)+".URL", quote(u.URL), "each upstream once")
		}
		seen[u.URL] = true
	}
	validateRange(errs, field+".DialTimeout", r.DialTimeout, time.Millisecond, maxDuration)
	validateRange(errs, field+".ResponseHeaderTimeout", r.ResponseHeaderTimeout, time.Millisecond, maxDuration)
	validateRange(errs, field+".TotalTimeout", r.TotalTimeout, 0, maxDuration)
	validateRange(errs, field+".UpstreamIdle", r.UpstreamIdle, time.Millisecond, maxDuration)
	validateRange(errs, field+".UpstreamConns", r.UpstreamConns, 1, maxCount)
	validateRange(errs, field+".UploadsPerClient", r.UploadsPerClient, -1, maxCount)
	validateRange(errs, field+".Retries", r.Retries, -1, 10)
	validateRange(errs, field+".MaxBody", r.MaxBody, -1, 1<<60)
	validateRange(errs, field+".Ejection.After", r.Ejection.After, -1, maxCount)
	validateRange(errs, field+".Ejection.For", r.Ejection.For, time.Millisecond, maxDuration/16)
	validateRange(errs, field+".Ejection.SlowReturn", r.Ejection.SlowReturn, -1, maxDuration)
	if r.Health != nil {
		r.Health.validate(errs, field+".Health")
	}
}

func (h *Health) validate(errs *configErrors, field string) {
	if u, err := url.ParseRequestURI(h.Path); err != nil || h.Path[0] != '/' || u.Host != "" {
		errs.add(field+".Path", quote(h.Path), "a path such as /healthz")
	}
	validateRange(errs, field+".Interval", h.Interval, time.Millisecond, maxDuration)
	validateRange(errs, field+".Timeout", h.Timeout, time.Millisecond, h.Interval)
	validateRange(errs, field+".Failures", h.Failures, 1, 1000)
	validateRange(errs, field+".Successes", h.Successes, 1, 1000)
	if h.Host != "" {
		if _, err := identity.CanonicalHost(h.Host); err != nil {
			errs.add(field+".Host", quote(h.Host), "a host such as api.example.com, with or without a port")
		}
	}
}

func (u *Upstream) validate(errs *configErrors, field string) {
	target, err := transport.ParseTarget(u.URL)
	if err != nil {
		errs.add(field+".URL", quote(withoutUser(u.URL)), err.Error())
		return
	}
	if u.TLS == nil {
		return
	}
	if !target.TLS {
		errs.add(field+".TLS", "", "none with "+quote(u.URL)+", which is not https or h2")
		return
	}
	if _, err := u.TLS.config(target.Name); err != nil {
		errs.add(field+".TLS", "("+err.Error()+")", "files in PEM")
	}
}

// withoutUser replaces the user and password of a URL, for error messages. The URL may be invalid.
func withoutUser(text string) string {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return text
	}
	before, _, ok := strings.Cut(text[:at], "//")
	if !ok {
		return "…" + text[at:]
	}
	return before + "//…" + text[at:]
}

// config returns the configuration for crypto/tls. t may be nil. name is the default of ServerName.
func (t *UpstreamTLS) config(name string) (*tls.Config, error) {
	c := &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(64)}
	if t == nil {
		return c, nil
	}
	if t.ServerName != "" {
		c.ServerName = t.ServerName
	}
	c.InsecureSkipVerify = t.InsecureSkipVerify
	if t.CAFile != "" {
		var err error
		if c.RootCAs, err = certs.LoadAuthorities(t.CAFile); err != nil {
			return nil, err
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := CertificateFiles{CertFile: t.CertFile, KeyFile: t.KeyFile}.Load()
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{*pair}
	}
	return c, nil
}
