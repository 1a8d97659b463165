// Package redisurl parses the URLs of Redis servers.
package redisurl

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/secretfile"
)

// A Kind is the deployment of the servers.
type Kind uint8

// The kinds.
const (
	Standalone Kind = iota
	Sentinel
	Cluster
)

// An Endpoint is a parsed URL.
type Endpoint struct {
	Kind     Kind
	Network  string   // tcp or unix
	Addrs    []string // addresses of the server, the sentinels, or some servers of the cluster
	Master   string   // the primary's name in Sentinel
	DB       int
	Login    Login
	Sentinel Login
	TLS      *tls.Config // nil for no TLS
	RESP2    bool

	// DialTimeout and HangTimeout are 0 if unset.
	DialTimeout, HangTimeout time.Duration
}

// A Login is a user and a password. An empty user is the default user.
type Login struct{ User, Password string }

// MinTimeout is the shortest accepted timeout.
const MinTimeout = 10 * time.Millisecond

// A scheme is the meaning of a URL scheme.
type scheme struct {
	kind Kind
	tls  bool
	unix bool
}

var schemes = map[string]scheme{
	"redis":           {},
	"rediss":          {tls: true},
	"redis-sentinel":  {kind: Sentinel},
	"rediss-sentinel": {kind: Sentinel, tls: true},
	"redis-cluster":   {kind: Cluster},
	"rediss-cluster":  {kind: Cluster, tls: true},
	"unix":            {unix: true},
	"redis+unix":      {unix: true},
}

const (
	schemesWanted = "redis://, rediss://, redis-sentinel://, redis-cluster:// or unix://"
	defaultPort   = "6379"
	// SentinelPort is the default port of a sentinel.
	SentinelPort = "26379"
)

// Parse parses a URL. It does not use url.Parse, whose errors may contain the password.
func Parse(raw string) (*Endpoint, error) {
	name, rest, ok := strings.Cut(raw, "://")
	s, known := schemes[strings.ToLower(name)]
	switch {
	case !ok:
		return nil, badURL("it has no scheme", "want "+schemesWanted)
	case !known:
		return nil, badURL(fmt.Sprintf("unknown scheme %s", show(name)), "want "+schemesWanted)
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	e := &Endpoint{Kind: s.kind, Network: "tcp"}
	if strings.Contains(path+query, "@") || strings.Contains(raw, "#") {
		return nil, badURL("misplaced / ? # or @", "in a password write %2F %3F %23 %40 for them")
	}
	hosts, err := e.readLogin(authority)
	if err != nil {
		return nil, err
	}
	if s.unix {
		e.Network = "unix"
		if hosts != "" {
			return nil, badURL(fmt.Sprintf("host %s in the URL of a socket", show(hosts)),
				"want three slashes in front of the path: unix:///run/redis.sock")
		}
		e.Addrs, err = readSocket(path)
	} else {
		err = e.readHosts(hosts, path)
	}
	if err != nil {
		return nil, err
	}
	return e, e.readQuery(query, s.tls)
}

func badURL(what, want string) error {
	return fmt.Errorf("bad URL: %s: %s", what, want)
}

// show quotes a part of a URL that is not secret, shortened.
func show(s string) string {
	const maxShown = 64
	if len(s) > maxShown {
		return strconv.Quote(s[:maxShown]) + "…"
	}
	return strconv.Quote(s)
}

// readLogin reads the user and password at the beginning of the authority, and returns the rest.
func (e *Endpoint) readLogin(authority string) (hosts string, err error) {
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return authority, nil
	}
	user, password, ok := strings.Cut(authority[:at], ":")
	if !ok || password == "" {
		return "", badURL("a user without a password", "want user:password@ or :password@ in front of the host")
	}
	if e.Login.User, err = url.PathUnescape(user); err == nil {
		e.Login.Password, err = url.PathUnescape(password)
	}
	if err != nil {
		return "", badURL("a % in user or password that does not begin an escape", "write %25 for it")
	}
	return authority[at+1:], nil
}

func readSocket(path string) ([]string, error) {
	path, err := url.PathUnescape(path)
	if err != nil || path == "" {
		return nil, badURL("no path of a socket", "want one such as unix:///run/redis.sock")
	}
	return []string{"/" + path}, nil
}

func (e *Endpoint) readHosts(hosts, path string) error {
	port := defaultPort
	if e.Kind == Sentinel {
		port = SentinelPort
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := readAddr(host, port)
		if err != nil {
			return err
		}
		if slices.Contains(e.Addrs, addr) {
			return badURL(fmt.Sprintf("%s occurs twice", addr), "name each server once")
		}
		e.Addrs = append(e.Addrs, addr)
	}
	if e.Kind == Standalone && len(e.Addrs) > 1 {
		return badURL("several servers",
			"want redis-cluster:// for a cluster, redis-sentinel:// for sentinels, or one server")
	}
	if path == "" && e.Kind != Sentinel {
		return nil
	}
	words := strings.Split(path, "/")
	if e.Kind == Sentinel {
		master, err := url.PathUnescape(words[0])
		if err != nil || master == "" {
			return badURL("no name of the primary after the sentinels", "want redis-sentinel://host:port,host:port/name")
		}
		e.Master, words = master, words[1:]
	}
	switch len(words) {
	case 0:
		return nil
	case 1:
		return e.setDB(words[0])
	default:
		return badURL(fmt.Sprintf("path %s", show("/"+path)), "want at most the number of a database after the host")
	}
}

// readAddr parses host, host:port or [host]:port, and adds the default port if there is none. Its errors do not
// contain the text, which may be a user and password if the host is missing.
func readAddr(s, port string) (string, error) {
	host := s
	if colon := strings.LastIndexByte(s, ':'); colon >= 0 && !strings.HasSuffix(s, "]") {
		host, port = s[:colon], s[colon+1:]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host, ok = strings.CutSuffix(inner, "]")
		if !ok || net.ParseIP(host) == nil {
			return "", badURL("the text in brackets is not an IPv6 address", "want one as in [::1]:6379")
		}
	} else if strings.ContainsAny(host, ":[]") {
		return "", badURL("more than one colon in a host and its port",
			"want brackets around an IPv6 address, as in [::1]:6379")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", badURL("the port is not a number from 1 to 65535", "want host:port, and an @ between password and host")
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n%") {
		return "", badURL("no name of a host", "want host:port")
	}
	return net.JoinHostPort(host, port), nil
}

func (e *Endpoint) setDB(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return badURL(fmt.Sprintf("database %s", show(s)), "want a number, 0 if it is left out")
	}
	if n > 0 && e.Kind == Cluster {
		return badURL(fmt.Sprintf("database %d", n), "want none: a cluster has only database 0")
	}
	e.DB = int(n)
	return nil
}

// The query parameters.
const (
	paramDB               = "db"
	paramProtocol         = "protocol"
	paramDialTimeout      = "dial_timeout"
	paramHangTimeout      = "hang_timeout"
	paramTLS              = "tls"
	paramTLSServerName    = "tls_server_name"
	paramTLSCAFile        = "tls_ca_file"
	paramTLSCertFile      = "tls_cert_file"
	paramTLSKeyFile       = "tls_key_file"
	paramTLSInsecure      = "tls_insecure"
	paramSentinelUser     = "sentinel_user"
	paramSentinelPassword = "sentinel_password"
)

var params = []string{
	paramDB, paramProtocol, paramDialTimeout, paramHangTimeout,
	paramTLS, paramTLSServerName, paramTLSCAFile, paramTLSCertFile, paramTLSKeyFile, paramTLSInsecure,
	paramSentinelUser, paramSentinelPassword,
}

func (e *Endpoint) readQuery(query string, tlsScheme bool) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return badURL("the part after the ? cannot be parsed",
			"want name=value&name=value, with escapes such as %26 for special characters")
	}
	for name, v := range values {
		if !slices.Contains(params, name) {
			return badURL(fmt.Sprintf("unknown parameter %s", show(name)), "want one of "+strings.Join(params, ", "))
		}
		if len(v) > 1 {
			return badURL(fmt.Sprintf("parameter %s occurs %d times", name, len(v)), "want it once")
		}
	}
	if values.Has(paramDB) {
		if e.DB != 0 {
			return badURL("a database in the path and as "+paramDB, "want it once")
		}
		if err := e.setDB(values.Get(paramDB)); err != nil {
			return err
		}
	}
	switch p := values.Get(paramProtocol); p {
	case "", "3":
	case "2":
		e.RESP2 = true
	default:
		return badURL(fmt.Sprintf("%s %s", paramProtocol, show(p)), "want 2 or 3")
	}
	if e.DialTimeout, err = readDuration(values, paramDialTimeout); err != nil {
		return err
	}
	if e.HangTimeout, err = readDuration(values, paramHangTimeout); err != nil {
		return err
	}
	e.Sentinel = Login{values.Get(paramSentinelUser), values.Get(paramSentinelPassword)}
	if e.Sentinel != (Login{}) && e.Kind != Sentinel {
		return badURL(paramSentinelUser+" or "+paramSentinelPassword+" without sentinels",
			"want them only with redis-sentinel://")
	}
	if e.Sentinel.User != "" && e.Sentinel.Password == "" {
		return badURL(paramSentinelUser+" without "+paramSentinelPassword, "want both, or the password alone")
	}
	return e.readTLS(values, tlsScheme)
}

func readDuration(values url.Values, name string) (time.Duration, error) {
	if !values.Has(name) {
		return 0, nil
	}
	d, err := time.ParseDuration(values.Get(name))
	if err != nil || d < MinTimeout {
		return 0, badURL(fmt.Sprintf("%s %s", name, show(values.Get(name))),
			fmt.Sprintf("want a duration such as 500ms, at least %v", MinTimeout))
	}
	return d, nil
}

func readBool(values url.Values, name string, unset bool) (bool, error) {
	if !values.Has(name) {
		return unset, nil
	}
	b, err := strconv.ParseBool(values.Get(name))
	if err != nil {
		return false, badURL(fmt.Sprintf("%s %s", name, show(values.Get(name))), "want true or false")
	}
	return b, nil
}

// readTLS reads the parameters for TLS. tlsScheme says whether the scheme of the URL selects TLS.
func (e *Endpoint) readTLS(values url.Values, tlsScheme bool) error {
	useTLS, err := readBool(values, paramTLS, tlsScheme)
	if err != nil {
		return err
	}
	if tlsScheme && !useTLS {
		return badURL("rediss and "+paramTLS+"=false", "want redis:// for no TLS")
	}
	insecure, err := readBool(values, paramTLSInsecure, false)
	if err != nil {
		return err
	}
	if !useTLS {
		for _, name := range []string{
			paramTLSServerName, paramTLSCAFile, paramTLSCertFile, paramTLSKeyFile, paramTLSInsecure,
		} {
			if values.Has(name) {
				return badURL(name+" without TLS", "want rediss:// or tls=true with it")
			}
		}
		return nil
	}
	e.TLS = &tls.Config{
		ServerName: values.Get(paramTLSServerName), InsecureSkipVerify: insecure,
		MinVersion: tls.VersionTLS12,
	}
	return loadCertificates(e.TLS, values)
}

// loadCertificates adds the certificates of the files that a query names to config.
func loadCertificates(config *tls.Config, values url.Values) error {
	if name := values.Get(paramTLSCAFile); name != "" {
		pem, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read %s: %w", paramTLSCAFile, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s %s has no certificate in it: want PEM", paramTLSCAFile, name)
		}
	}
	cert, key := values.Get(paramTLSCertFile), values.Get(paramTLSKeyFile)
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return badURL("only one of "+paramTLSCertFile+" and "+paramTLSKeyFile, "want both or none")
	}
	if err := secretfile.Check(key); err != nil {
		return fmt.Errorf("%s: %w", paramTLSKeyFile, err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("read %s and %s: %w", paramTLSCertFile, paramTLSKeyFile, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return nil
}
