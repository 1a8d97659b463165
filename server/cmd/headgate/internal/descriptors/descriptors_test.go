package descriptors

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/gateway"
)

func TestTooFewDescriptorsAreDivided(t *testing.T) {
	few := &need{listeners: map[string]int{"gateway": 100, "admin": 50}, upstreams: 1, connections: 100, upgraded: 20}
	usual := &need{
		listeners: map[string]int{"gateway": 10_000, "api": 20_000, "grpc": 20_000, "resp": 20_000, "admin": 20_000},
		upstreams: 2, connections: 2048, upgraded: 20_000,
	}
	for _, tt := range []struct {
		what                          string
		limit                         int
		need                          *need
		reserved, shared, perUpstream int
		level                         string
	}{
		{"enough", 1024, few, 0, 0, 0, ""},
		{"exactly enough", few.total(), few, 0, 0, 0, ""},
		{"not known", 0, usual, 0, 0, 0, ""},
		{"1024", 1024, usual, 67, 337, 112, "WARN"},
		{"20000", 20_000, usual, 1782, 8914, 1024, "INFO"},
		{"hardly any", 64, usual, 3, 21, 6, "WARN"},
	} {
		p := divide(tt.limit, tt.need)
		shared := 0
		if p.isShort() {
			shared = p.Share.Shared.Total()
		}
		if p.Share.Reserved != tt.reserved || shared != tt.shared || p.perUpstream != tt.perUpstream {
			t.Errorf("%s: got %d reserved, %d shared, %d for each upstream; want %d, %d, %d", tt.what,
				p.Share.Reserved, shared, p.perUpstream, tt.reserved, tt.shared, tt.perUpstream)
		}
		if used := p.Share.Reserved*len(tt.need.listeners) + shared + p.perUpstream*tt.need.upstreams; p.isShort() && used > tt.limit {
			t.Errorf("%s: connections may use %d of %d descriptors", tt.what, used, tt.limit)
		}
		var log bytes.Buffer
		p.logShortage(slog.New(slog.NewTextHandler(&log, nil)), false)
		if level := "level=" + tt.level; tt.level == "" && log.Len() > 0 || !strings.Contains(log.String(), level) && tt.level != "" {
			t.Errorf("%s: got %q in the log, want %q", tt.what, log.String(), tt.level)
		}
		settings := gateway.Config{Routes: []gateway.Route{{}, {UpstreamConns: 5}}}
		p.LimitGateway(&settings)
		if got := settings.Routes[0].UpstreamConns; got != tt.perUpstream {
			t.Errorf("%s: got %d connections for an upstream, want %d", tt.what, got, tt.perUpstream)
		}
		if got := settings.Routes[1].UpstreamConns; got > 5 || got == 0 {
			t.Errorf("%s: got %d connections for an upstream that may have 5", tt.what, got)
		}
	}
}

func TestConfigFileMakesTheShortageAWarning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	if err := os.WriteFile(path, []byte("service: {max_conns: 100000}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := config.Load(config.Inputs{Flags: map[string]string{"config": path}})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if _, err := New(c, 20_000, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("got %q in the log, want a warning", log.String())
	}
}
