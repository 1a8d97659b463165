package gateway

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/headgate/headgate/bench/site"
)

// openHAProxy starts HAProxy with a limit by address. Depending on the front, no request exceeds it, or all requests
// do.
func openHAProxy(refuses bool) func(context.Context, *site.Site) (site.RunningServer, error) {
	return openHAProxyWith(refuses, func(*site.Site) (string, error) { return "", nil })
}

// openHAProxyHTTP2 starts HAProxy with HTTP/2 over TLS and a limit that no request exceeds.
func openHAProxyHTTP2(ctx context.Context, s *site.Site) (site.RunningServer, error) {
	return openHAProxyWith(false, func(s *site.Site) (string, error) {
		files, err := s.Certificate()
		return " ssl crt " + files.Both + " alpn h2", err
	})(ctx, s)
}

// openHAProxyWith starts HAProxy with further options after the address that it listens on.
func openHAProxyWith(
	refuses bool, more func(s *site.Site) (string, error),
) func(context.Context, *site.Site) (site.RunningServer, error) {
	return func(ctx context.Context, s *site.Site) (site.RunningServer, error) {
		path, err := site.Program("haproxy")
		if err != nil {
			return site.RunningServer{}, err
		}
		most := 1_000_000_000
		if refuses {
			most = 0
		}
		secure, err := more(s)
		if err != nil {
			return site.RunningServer{}, err
		}
		return s.StartServer(ctx, func(address string) (*exec.Cmd, error) {
			dir, err := os.MkdirTemp(s.Dir, "haproxy-")
			if err != nil {
				return nil, err
			}
			file := filepath.Join(dir, "haproxy.cfg")
			text := fmt.Sprintf(haproxyConfig, address+secure, most, s.Upstream)
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				return nil, err
			}
			return exec.Command(path, "-db", "-f", file), nil
		})
	}
}

const haproxyConfig = `
global
	nbthread 1
	maxconn 8192
defaults
	mode http
	timeout connect 5s
	timeout client 1h
	timeout server 1h
	timeout http-keep-alive 1h
	http-reuse always
frontend clients
	bind %[1]s
	option forwardfor
	stick-table type ip size 100k expire 1m store http_req_rate(10s)
	http-request track-sc0 src
	http-request deny deny_status 429 if { sc_http_req_rate(0) gt %[2]d }
	default_backend service
backend service
	server upstream %[3]s
`
