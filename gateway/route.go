package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/headgate/headgate/identity"
)

// What a Route holds unless told otherwise.
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

// A Route says which upstreams serve a host and the paths below a prefix. Of several routes that match, the one with the
// most specific host is used, and of these the one with the longest path.
type Route struct {
	// Name is how the route is called in logs and figures. Default its host and path.
	Name string
	// Host is a name such as api.example.com, or *.example.com for all below. Default every host, or none at all.
	Host string
	// Path is the prefix, whole segments of it: /api is also for /api/x, and not for /apix. It is matched against the
	// canonical path, the one that is sent on. Default /.
	Path string
	// Upstreams take turns. At least one.
	Upstreams []Upstream
	// SendHost is the Host that upstreams are sent. Default the one that the client sent.
	SendHost string

	// DialTimeout is how long a connection to an upstream may take, with its handshake. Default DefaultDialTimeout.
	DialTimeout time.Duration
	// ResponseHeaderTimeout is how long an upstream may take from the end of the request to the header of its answer.
	// Default DefaultResponseHeaderTimeout.
	ResponseHeaderTimeout time.Duration
	// TotalTimeout is how long a request may take on the whole, with its answer. Upgraded connections are free of it.
	// Default 0: as long as it likes.
	TotalTimeout time.Duration
	// UpstreamIdle is how long an unused connection to an upstream is kept. It should be shorter than the upstream's own
	// patience. Default DefaultUpstreamIdle.
	UpstreamIdle time.Duration
	// UpstreamConns is how many connections an upstream may have at once. Who finds none free waits, at most DialTimeout.
	// Default DefaultUpstreamConns.
	UpstreamConns int
	// UploadsPerClient is how many uploads of one client may be under way at once: requests with a body of more than 16 KiB,
	// or of a length that is not known, which hold a connection of an upstream of HTTP/1.1 until they are received. More are
	// answered with 429. A client is an address; one of IPv6 counts as its network of 64 bits. Default a quarter of the
	// connections of all upstreams of the route; below zero any number.
	UploadsPerClient int
	// MaxBody is Config.MaxBody for this route. Default that; below zero none.
	MaxBody int64

	// Retries is on how many other upstreams a request is tried again that one did not take. That is done only if nothing
	// of it was sent, or if it may be repeated (GET, HEAD, OPTIONS, PUT, DELETE without a body) and nothing of an answer
	// came. A timeout is not tried again. Default DefaultRetries; below zero none.
	Retries int
	// Health says how upstreams are checked. Default nil: they are not.
	Health *Health
	// Ejection says when an upstream that fails is left out.
	Ejection Ejection
}

// An Upstream is a server that requests are sent to.
type Upstream struct {
	// URL is where: http://host:port, https://host:port, h2c://host:port for HTTP/2 without TLS, h2://host:port for HTTP/2
	// over TLS, unix:/path for HTTP/1.1 on a socket of Unix, unix+h2c:/path for HTTP/2.
	URL string
	// TLS says whom to believe, for https and h2. Default the system's roots and the host's own name.
	TLS *UpstreamTLS
}

// UpstreamTLS says how an upstream proves who it is, and how we do.
type UpstreamTLS struct {
	// CAFile has the certificates of those who may vouch for the upstream, in PEM. Default those of the system.
	CAFile string
	// ServerName is the name that the upstream must prove. Default the host in its URL.
	ServerName string
	// CertFile and KeyFile prove to the upstream who we are. Default nothing does.
	CertFile, KeyFile string
	// InsecureSkipVerify believes every upstream. For tests only.
	InsecureSkipVerify bool
}

// Health says how upstreams are checked: by GET requests of their own. What answers with a status of 200 to 399 is well.
// Upstreams are taken to be well until they have failed.
type Health struct {
	// Path is what is asked for, such as /healthz. It may have a query.
	Path string
	// Host is the Host that is sent. Default the route's SendHost, or the upstream's.
	Host string
	// Interval is the time between two checks of an upstream. It varies by a tenth by chance, so that many gateways do
	// not ask at once. Default DefaultHealthInterval.
	Interval time.Duration
	// Timeout is how long a check may take. Default DefaultHealthTimeout, or Interval if that is shorter.
	Timeout time.Duration
	// Failures is after how many failed checks in a row an upstream is down. Default DefaultFailures.
	Failures int
	// Successes is after how many good ones in a row it is back. Default DefaultSuccesses.
	Successes int
}

// Ejection says when an upstream is left out because requests fail there. If all are left out, they are all tried: only
// Health can say that there is nobody to ask.
type Ejection struct {
	// After is how many requests in a row must fail: the upstream cannot be reached, breaks off, does not answer in time, or
	// says what is not HTTP. Default DefaultEjectAfter; below zero nobody is left out, and neither is an only upstream.
	After int
	// Count5xx counts answers of 500 and above as failures too. Default not.
	Count5xx bool
	// For is how long it is left out for the first time. If it fails again when it is back, it is twice as long, up to
	// 16 times. Default DefaultEjectFor.
	For time.Duration
	// SlowReturn is how long it takes an upstream that is back, from wherever, to get its full share again, beginning with
	// a tenth. Default DefaultSlowReturn; below zero it gets it at once.
	SlowReturn time.Duration
}

func (r *Route) fill(c *Config) {
	or(&r.Path, "/")
	or(&r.Name, r.Host+r.Path)
	or(&r.DialTimeout, DefaultDialTimeout)
	or(&r.ResponseHeaderTimeout, DefaultResponseHeaderTimeout)
	or(&r.UpstreamIdle, DefaultUpstreamIdle)
	or(&r.UpstreamConns, DefaultUpstreamConns)
	or(&r.MaxBody, c.MaxBody)
	or(&r.Retries, DefaultRetries)
	or(&r.Ejection.After, DefaultEjectAfter)
	or(&r.Ejection.For, DefaultEjectFor)
	or(&r.Ejection.SlowReturn, DefaultSlowReturn)
	r.Host = strings.ToLower(r.Host)
	if r.Health != nil {
		h := *r.Health
		or(&h.Interval, DefaultHealthInterval)
		or(&h.Timeout, min(DefaultHealthTimeout, h.Interval))
		or(&h.Failures, DefaultFailures)
		or(&h.Successes, DefaultSuccesses)
		or(&h.Host, r.SendHost)
		r.Health = &h
	}
}

func (r *Route) check(k *checker, field string) {
	if r.Host != "" {
		name := strings.TrimPrefix(r.Host, "*.")
		if canonical, err := identity.CanonicalHost(name); err != nil || canonical != name {
			k.add(field+".Host", quote(r.Host), "a name such as api.example.com or *.example.com, without a port")
		}
	}
	// The strictest reading, so that a prefix means the same whatever the rules for paths are.
	if canonical, err := identity.CanonicalPath(r.Path, identity.PathRules{}); err != nil || canonical != r.Path || r.Path[0] != '/' {
		k.add(field+".Path", quote(r.Path), "a canonical path such as /api")
	}
	if r.SendHost != "" {
		if _, err := identity.CanonicalHost(r.SendHost); err != nil {
			k.add(field+".SendHost", quote(r.SendHost), "a host such as api.example.com, with or without a port")
		}
	}
	if len(r.Upstreams) == 0 {
		k.add(field+".Upstreams", "", "at least one")
	}
	seen := make(map[string]bool, len(r.Upstreams))
	for i := range r.Upstreams {
		u := &r.Upstreams[i]
		u.check(k, index(field+".Upstreams", i))
		if seen[u.URL] {
			k.add(index(field+".Upstreams", i)+".URL", quote(u.URL), "each upstream once")
		}
		seen[u.URL] = true
	}
	between(k, field+".DialTimeout", r.DialTimeout, time.Millisecond, maxDuration)
	between(k, field+".ResponseHeaderTimeout", r.ResponseHeaderTimeout, time.Millisecond, maxDuration)
	between(k, field+".TotalTimeout", r.TotalTimeout, 0, maxDuration)
	between(k, field+".UpstreamIdle", r.UpstreamIdle, time.Millisecond, maxDuration)
	between(k, field+".UpstreamConns", r.UpstreamConns, 1, maxCount)
	between(k, field+".UploadsPerClient", r.UploadsPerClient, -1, maxCount)
	between(k, field+".Retries", r.Retries, -1, 10)
	between(k, field+".MaxBody", r.MaxBody, -1, 1<<60)
	between(k, field+".Ejection.After", r.Ejection.After, -1, maxCount)
	between(k, field+".Ejection.For", r.Ejection.For, time.Millisecond, maxDuration/16)
	between(k, field+".Ejection.SlowReturn", r.Ejection.SlowReturn, -1, maxDuration)
	if r.Health != nil {
		r.Health.check(k, field+".Health")
	}
}

func (h *Health) check(k *checker, field string) {
	if u, err := url.ParseRequestURI(h.Path); err != nil || h.Path[0] != '/' || u.Host != "" {
		k.add(field+".Path", quote(h.Path), "a path such as /healthz")
	}
	between(k, field+".Interval", h.Interval, time.Millisecond, maxDuration)
	between(k, field+".Timeout", h.Timeout, time.Millisecond, h.Interval)
	between(k, field+".Failures", h.Failures, 1, 1000)
	between(k, field+".Successes", h.Successes, 1, 1000)
	if h.Host != "" {
		if _, err := identity.CanonicalHost(h.Host); err != nil {
			k.add(field+".Host", quote(h.Host), "a host such as api.example.com, with or without a port")
		}
	}
}

func (u *Upstream) check(k *checker, field string) {
	t, err := u.target()
	if err != nil {
		k.add(field+".URL", quote(withoutUser(u.URL)), err.Error())
		return
	}
	if u.TLS == nil {
		return
	}
	if !t.secure {
		k.add(field+".TLS", "", "none with "+quote(u.URL)+", which is not https or h2")
		return
	}
	if _, err := u.TLS.config(t.name); err != nil {
		k.add(field+".TLS", "("+err.Error()+")", "files in PEM")
	}
}

// withoutUser returns a URL without the user and password that it may have, to be shown. It need not be a valid URL.
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

// A target is what the URL of an upstream says.
type target struct {
	network string // tcp or unix
	address string // what to dial
	host    string // what to send as Host if nobody says otherwise
	name    string // what a certificate must prove
	secure  bool
	http2   bool
}

var errUpstreamURL = errors.New("http://host:port, https://host:port, h2c://host:port, h2://host:port, unix:/path or unix+h2c:/path, " +
	"without a path on the server, a query or a user")

func (u *Upstream) target() (target, error) {
	parsed, err := url.Parse(u.URL)
	if err != nil {
		return target{}, errUpstreamURL
	}
	if parsed.Scheme == "unix" || parsed.Scheme == "unix+h2c" {
		if parsed.Host != "" || len(parsed.Path) < 2 || parsed.RawQuery != "" || parsed.Fragment != "" {
			return target{}, errUpstreamURL
		}
		return target{network: "unix", address: parsed.Path, host: "localhost", http2: parsed.Scheme == "unix+h2c"}, nil
	}
	t := target{network: "tcp", host: parsed.Host, name: parsed.Hostname()}
	port := "80"
	switch parsed.Scheme {
	case "http":
	case "h2c":
		t.http2 = true
	case "https":
		t.secure, port = true, "443"
	case "h2":
		t.secure, t.http2, port = true, true, "443"
	default:
		return target{}, errUpstreamURL
	}
	if _, err := identity.CanonicalHost(parsed.Host); err != nil || parsed.User != nil || parsed.RawQuery != "" ||
		parsed.Fragment != "" || parsed.Path != "" && parsed.Path != "/" {
		return target{}, errUpstreamURL
	}
	if p := parsed.Port(); p != "" {
		port = p
	}
	t.address = net.JoinHostPort(t.name, port)
	return t, nil
}

// config returns what crypto/tls takes.
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
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CAFile: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CAFile %s has no certificate", t.CAFile)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := CertificateFiles{CertFile: t.CertFile, KeyFile: t.KeyFile}.load()
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{*pair}
	}
	return c, nil
}
