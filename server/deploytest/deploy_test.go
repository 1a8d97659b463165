package deploytest

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestNginxWithAuthRequest(t *testing.T) {
	t.Parallel()
	s, dir, addr := newSite(t), t.TempDir(), freePort(t)
	place(t, dir, "nginx/headgate.conf", "127.0.0.1:8081", s.decider, "127.0.0.1:9000", s.service, "listen 80;", "listen "+addr+";", "250ms", "10s")
	whole := `
daemon off;
master_process off;
pid nginx.pid;
error_log stderr warn;
events {}
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	include headgate.conf;
}
`
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, addr, "nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	proxy{url: "http://" + addr, tells: true, opens: true}.test(t, s)
}

func TestCaddyWithForwardAuth(t *testing.T) {
	t.Parallel()
	s, dir, addr := newSite(t), t.TempDir(), freePort(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	path := place(t, dir, "caddy/Caddyfile", "127.0.0.1:8081", s.decider, "127.0.0.1:9000", s.service, ":80 {", ":"+port+" {\n\tbind 127.0.0.1", "250ms", "10s")
	own := "{\n\tadmin off\n\tauto_https off\n}\n"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte(own), data...), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, addr, "caddy", "run", "--config", path, "--adapter", "caddyfile")
	proxy{url: "http://" + addr, tells: true, opens: true}.test(t, s)
}
