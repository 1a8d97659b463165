package gateway

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/headgate/headgate/bench/site"
)

// nginxRefusing is the lowest rate that nginx supports. After the first request, all requests are denied for a minute.
const (
	nginxPassing  = "rate=1000000r/s"
	nginxRefusing = "rate=1r/m"
)

// openNginx starts nginx with a limit by address. Depending on the front, no request exceeds it, or all requests do.
func openNginx(refuses bool) func(context.Context, *site.Site) (site.RunningServer, error) {
	return openNginxWith(refuses, func(*site.Site) (string, error) { return "", nil })
}

// openNginxHTTP2 starts nginx with HTTP/2 over TLS and a limit that no request exceeds.
func openNginxHTTP2(ctx context.Context, s *site.Site) (site.RunningServer, error) {
	return openNginxWith(false, func(s *site.Site) (string, error) {
		files, err := s.Certificate()
		return " ssl http2;\n\t\tssl_certificate " + files.Cert + ";\n\t\tssl_certificate_key " + files.Key, err
	})(ctx, s)
}

// openNginxLogging starts nginx with an access log of every request.
func openNginxLogging(ctx context.Context, s *site.Site) (site.RunningServer, error) {
	return openNginxWith(false, func(s *site.Site) (string, error) {
		return ";\n\t\taccess_log " + filepath.Join(s.Dir, "nginx.log"), nil
	})(ctx, s)
}

// openNginxWith starts nginx with further options after the address that it listens on.
func openNginxWith(
	refuses bool, more func(s *site.Site) (string, error),
) func(context.Context, *site.Site) (site.RunningServer, error) {
	return func(ctx context.Context, s *site.Site) (site.RunningServer, error) {
		path, err := site.Program("nginx")
		if err != nil {
			return site.RunningServer{}, err
		}
		rate, burst := nginxPassing, "burst=1000000 nodelay"
		if refuses {
			rate, burst = nginxRefusing, "nodelay"
		}
		secure, err := more(s)
		if err != nil {
			return site.RunningServer{}, err
		}
		return s.StartServer(ctx, func(address string) (*exec.Cmd, error) {
			dir, err := os.MkdirTemp(s.Dir, "nginx-")
			if err != nil {
				return nil, err
			}
			file := filepath.Join(dir, "nginx.conf")
			text := fmt.Sprintf(nginxConfig, dir, rate, burst, s.Upstream, address+secure)
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				return nil, err
			}
			return exec.Command(path, "-p", dir, "-e", "stderr", "-c", file), nil
		})
	}
}

const nginxConfig = `
daemon off;
worker_processes 1;
pid %[1]s/pid;
error_log stderr crit;
events {
	worker_connections 16384;
}
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	keepalive_timeout 1h;
	keepalive_requests 1000000000;
	limit_req_zone $binary_remote_addr zone=clients:10m %[2]s;
	limit_req_status 429;
	upstream service {
		server %[4]s;
		keepalive 1024;
		keepalive_timeout 1h;
		keepalive_requests 1000000000;
	}
	server {
		listen %[5]s;
		location / {
			limit_req zone=clients %[3]s;
			proxy_pass http://service;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $host;
			proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
		}
	}
}
`
