package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/telemetry"
)

func load(t *testing.T, flags map[string]string) *config.Config {
	t.Helper()
	given := map[string]string{"gateway-addr": "127.0.0.1:0", "admin-addr": "127.0.0.1:0", "api-addr": "127.0.0.1:0", "grpc-addr": "127.0.0.1:0", "resp-addr": "127.0.0.1:0"}
	for name, value := range flags {
		given[name] = value
	}
	c, _, err := config.Load(config.Inputs{Flags: given})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestStoppedNodeLeavesNoGoroutines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, demoRules, 0o600); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for range 3 {
		n, err := Open(context.Background(), load(t, map[string]string{"rules": path}), Options{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if got := n.Status().State; got != telemetry.Starting {
			t.Errorf("got %s before it runs, want starting", got)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- n.Run(ctx) }()
		transport := &http.Transport{}
		response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Get("http://" + n.Listeners()["gateway"])
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		transport.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := n.Status().State; got != telemetry.Draining {
			t.Errorf("got %s at the end", got)
		}
	}
	await.Goroutines(t, before)
}

func TestFailedOpenLeavesNothingOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	before := runtime.NumGoroutine()
	for _, flags := range []map[string]string{
		{"admin-addr": taken.Addr().String()}, // the last to be opened
		{"gateway-addr": taken.Addr().String()},
		{"api-addr": taken.Addr().String()},
		{"grpc-addr": taken.Addr().String()},
		{"resp-addr": taken.Addr().String()},
		{"envoy-config": "nothing.txt"},
		{"api-token-file": "nothing.txt"},
		{"rules": "nothing.yaml"},
		{"key-secret-file": "nothing.txt"},
		{"upstream": "nothing"},
	} {
		n, err := Open(context.Background(), load(t, flags), Options{Logger: quiet()})
		if err == nil {
			t.Errorf("%v: it starts", flags)
			_ = n.close()
		}
	}
	await.Goroutines(t, before)
}

func TestRunReturnsIfContextHasEnded(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	n, err := Open(ctx, load(t, nil), Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := n.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestFailedServerStopsTheNode(t *testing.T) {
	n, err := Open(context.Background(), load(t, nil), Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.admin.listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "admin: ") {
		t.Errorf("got %v, want an error of the admin server", err)
	}
}

func TestBannerShowsCommandsToTry(t *testing.T) {
	var b bytes.Buffer
	n, err := Open(context.Background(), load(t, nil), Options{Logger: quiet(), Banner: &b})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.close() }()
	n.announce()
	url := "http://" + n.Listeners()["gateway"] + "/"
	for _, want := range []string{"\n  curl -i " + url + "\n", n.Listeners()["admin"] + "/metrics", "--upstream URL", "--rules FILE"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got no %q in\n%s", want, b.String())
		}
	}
}

func TestLocalAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"[::]:8080": "localhost:8080", "0.0.0.0:80": "localhost:80", "127.0.0.1:1": "127.0.0.1:1", "[::1]:1": "[::1]:1", "/run/s": "/run/s",
	} {
		if got := localAddress(addr); got != want {
			t.Errorf("%s: got %s, want %s", addr, got, want)
		}
	}
}

func TestLocateFindsEngineErrorsInTheFile(t *testing.T) {
	const text = "rules:\n  - { id: a, limits: [1/s] }\n  - id: b\n    limits: [1/s]\n    consistency: gossip\n"
	refused := &rules.Error{Problems: []rules.Problem{{Path: "rule b: consistency", Value: "gossip", Want: "exact or local"}}}
	err := Locate("rules.yaml", []byte(text), refused)
	if err == nil || !strings.HasPrefix(err.Error(), "rules.yaml:5:18: rules[1].consistency: gossip: want exact or local") {
		t.Errorf("got %v", err)
	}
	if other := errors.New("other"); !errors.Is(Locate("rules.yaml", []byte(text), other), other) {
		t.Error("another error is lost")
	}
	if err := Locate("rules.yaml", []byte(text), nil); err != nil {
		t.Errorf("got %v for no error", err)
	}
}

func TestFaultsAreCountedAndLoggedOncePerSecond(t *testing.T) {
	var b bytes.Buffer
	n := &Node{observers: observers{metrics: telemetry.New("test")}, log: slog.New(slog.NewTextHandler(&b, nil)), started: time.Now()}
	tell := n.faultLogger("engine")
	for range 100 {
		tell(errors.New("broken"))
	}
	if got := strings.Count(b.String(), "broken"); got < 1 || got > 3 {
		t.Errorf("got %d lines, want one a second", got)
	}
	w := httptest.NewRecorder()
	n.metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if want := `headgate_faults_total{part="engine"} 100`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("got no %s among the metrics", want)
	}
}
