package redisdb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// A scheme is what the first word of a URL stands for.
type scheme struct{ tls, unix, cluster, sentinel bool }

var schemes = map[string]scheme{
	"redis":           {},
	"rediss":          {tls: true},
	"redis-sentinel":  {sentinel: true},
	"rediss-sentinel": {sentinel: true, tls: true},
	"redis-cluster":   {cluster: true},
	"rediss-cluster":  {cluster: true, tls: true},
	"unix":            {unix: true},
	"redis+unix":      {unix: true},
}

// settings are those that may stand behind the ?.
var settings = []string{
	"db", "protocol", "dial_timeout", "tls_server_name", "tls_ca_file", "tls_cert_file", "tls_key_file", "tls_insecure", "sentinel_user", "sentinel_password",
}

// parseURL reads a URL, and returns what to show of it. None of its errors has a password in it.
func parseURL(raw string) (o rueidis.ClientOption, name string, err error) {
	word, rest, _ := strings.Cut(raw, "://")
	s, known := schemes[strings.ToLower(word)]
	if !known {
		return o, "", errors.New("open Redis: bad URL: want redis://, rediss://, redis-sentinel://, redis-cluster:// or unix://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	login, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		login, hosts = authority[:i], authority[i+1:]
	}
	user, password, _ := strings.Cut(login, ":")
	values, err := url.ParseQuery(query)
	for _, escaped := range []*string{&user, &password, &path} {
		if err == nil {
			*escaped, err = url.PathUnescape(*escaped)
		}
	}
	if err != nil {
		return o, "", errors.New("open Redis: bad URL: an escape such as %2F is wrong in it")
	}
	for setting := range values {
		if !slices.Contains(settings, setting) {
			return o, "", fmt.Errorf("open Redis: bad URL: unknown parameter %.64q: want one of %s", setting, strings.Join(settings, ", "))
		}
	}
	o = rueidis.ClientOption{
		Username: user, Password: password, DisableCache: true, ForceSingleClient: !s.cluster && !s.sentinel, ConnWriteTimeout: calling,
		Dialer: net.Dialer{Timeout: connecting}, ClientName: "headgate-rules", RetryDelay: retryDelay,
	}
	if err := places(&o, s, hosts, path, values); err != nil {
		return o, "", fmt.Errorf("open Redis: bad URL: %w", err)
	}
	if err := manners(&o, s, values); err != nil {
		return o, "", fmt.Errorf("open Redis: bad URL: %w", err)
	}
	return o, word + "://" + hosts + "/" + strings.TrimPrefix(path, "/"), nil
}

// retryDelay is how long to wait before a read is sent again: some times, since a server that was restarted is back soon, and
// then no more, since who asks has other things to do.
func retryDelay(attempts int, _ rueidis.Completed, _ error) time.Duration {
	if attempts > 5 {
		return -1
	}
	return 10 * time.Millisecond << attempts
}

// places takes in where the servers are.
func places(o *rueidis.ClientOption, s scheme, hosts, path string, values url.Values) error {
	if s.unix {
		o.InitAddress = []string{"/" + path}
		o.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
		path = ""
	} else {
		port := "6379"
		if s.sentinel {
			port = "26379"
		}
		for host := range strings.SplitSeq(hosts, ",") {
			if _, _, err := net.SplitHostPort(host); err != nil {
				host = net.JoinHostPort(strings.Trim(host, "[]"), port)
			}
			if strings.HasPrefix(host, ":") {
				return errors.New("no name of a host: want host:port")
			}
			o.InitAddress = append(o.InitAddress, host)
		}
	}
	if len(o.InitAddress) > 1 && !s.cluster && !s.sentinel {
		return errors.New("several servers: want redis-cluster:// for a cluster, redis-sentinel:// for sentinels, or one server")
	}
	if s.sentinel {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: path, Username: values.Get("sentinel_user"), Password: values.Get("sentinel_password"), Dialer: o.Dialer, ClientName: o.ClientName,
		}
		if o.Sentinel.MasterSet, path, _ = strings.Cut(path, "/"); o.Sentinel.MasterSet == "" {
			return errors.New("no name of the primary after the sentinels: want redis-sentinel://host:port,host:port/name")
		}
	}
	if path == "" {
		path = values.Get("db")
	}
	if path == "" {
		return nil
	}
	n, err := strconv.ParseUint(path, 10, 31)
	if err != nil || n > 0 && s.cluster {
		return fmt.Errorf("database %.64q: want a number, and none in a cluster", path)
	}
	o.SelectDB = int(n)
	return nil
}

// manners takes in how to speak to the servers.
func manners(o *rueidis.ClientOption, s scheme, values url.Values) error {
	switch p := values.Get("protocol"); p {
	case "", "3":
	case "2":
		o.AlwaysRESP2 = true
	default:
		return fmt.Errorf("protocol %.64q: want 2 or 3", p)
	}
	if text := values.Get("dial_timeout"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return fmt.Errorf("dial_timeout %.64q: want a duration such as 500ms", text)
		}
		o.Dialer.Timeout = d
	}
	if !s.tls {
		for name := range values {
			if strings.HasPrefix(name, "tls_") {
				return fmt.Errorf("%s without TLS: want rediss:// with it", name)
			}
		}
		return nil
	}
	// Without a name, the certificate has to be of the host that is connected to.
	c := &tls.Config{ServerName: values.Get("tls_server_name"), MinVersion: tls.VersionTLS12}
	switch insecure := values.Get("tls_insecure"); insecure {
	case "", "false":
	case "true":
		c.InsecureSkipVerify = true
	default:
		return fmt.Errorf("tls_insecure %.64q: want true or false", insecure)
	}
	if file := values.Get("tls_ca_file"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s: no certificate in it", file)
		}
	}
	if file := values.Get("tls_cert_file"); file != "" || values.Has("tls_key_file") {
		pair, err := tls.LoadX509KeyPair(file, values.Get("tls_key_file"))
		if err != nil {
			return err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	o.TLSConfig = c
	if s.sentinel {
		o.Sentinel.TLSConfig = c
	}
	return nil
}
