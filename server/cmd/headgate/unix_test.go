package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func TestEveryListenerCanBeAUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "hg") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	names := []string{"gateway", "api", "grpc", "resp", "admin"}
	path := func(name string) string { return filepath.Join(dir, name+".sock") }
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(testAdminToken), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--admin-token-file", token}
	for _, name := range names {
		args = append(args, "--"+name+"-addr", "unix:"+path(name))
		leaveSocket(t, path(name))
	}
	p := serve(t, args...)
	line := p.logged("listening")[0]
	for _, name := range names {
		if line[name] != "unix:"+path(name) {
			t.Errorf("%s: the log says %v, want unix:%s", name, line[name], path(name))
		}
	}
	if warned := p.logged("other hosts can call the decision service without a token; require one with --api-token-file"); len(warned) > 0 {
		t.Errorf("got %v, want no warning: only this host reaches a Unix socket", warned)
	}

	if status, body := curl(t, "--unix-socket", path("gateway"), "http://localhost/"); status != "200" {
		t.Errorf("gateway: got %s %s", status, body)
	}
	if status, body := curl(t, "--unix-socket", path("api"), "-d", `{"client":{"userId":"alice"}}`, "http://localhost/v1/ratelimit"); status != "200" {
		t.Errorf("api: got %s %s", status, body)
	}
	if status, body := curl(t, "--unix-socket", path("admin"), "http://localhost/readyz"); status != "200" {
		t.Errorf("admin: got %s %s", status, body)
	}
	if got := command(t, "redis-cli", "-s", path("resp"), "CL.THROTTLE", "k", "1", "1", "60"); !strings.HasPrefix(got, "0\n2\n1\n") {
		t.Errorf("resp: got %q", got)
	}
	conn, err := grpc.NewClient("unix:"+path("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("grpc: got %v", err)
	}
	if got := command(t, "headgate", "rules", "list", "--server", "unix:"+path("admin"), "--token-file", token); !strings.Contains(got, "demo-per-address") {
		t.Errorf("headgate rules list: got %q", got)
	}

	p.stop()
	for _, name := range names {
		if _, err := os.Lstat(path(name)); !os.IsNotExist(err) {
			t.Errorf("%s: its socket is there after the end: %v", name, err)
		}
	}
}

// leaveSocket leaves a socket as a process does that was killed.
func leaveSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
