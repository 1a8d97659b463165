package deploycheck

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// program builds Headgate.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "headgate")
	c := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", path, "./server/cmd/headgate")
	c.Dir = "../.."
	c.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// TestHeadgateStartsWithTheConfigurations starts the real program with each configuration that a ConfigMap contains, with
// the directories moved, on free ports and with a short delay at the end, and waits until it is ready. Redis is unreachable:
// Headgate starts without it.
func TestHeadgateStartsWithTheConfigurations(t *testing.T) {
	headgate := program(t)
	configs := map[string]map[string]string{"kubernetes": of[*core.ConfigMap](kubernetes(t))[0].Data}
	for name, values := range helmValues {
		if name == "remote" { // it is ready only after the rules service has answered
			continue
		}
		objects, err := render(values)
		if err != nil {
			t.Fatal(err)
		}
		configs["helm "+name] = of[*core.ConfigMap](objects)[0].Data
	}
	for name, files := range configs {
		const drain, fastDrain = "drain_delay: 5s", "drain_delay: 10ms"
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files["key-secret"], files["admin-token"] = "0123456789abcdef", "fedcba9876543210"
			for file, text := range files {
				text = strings.NewReplacer("/etc/headgate-secrets", dir, "/etc/headgate", dir, drain, fastDrain).Replace(text)
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			environ := []string{"HEADGATE_DATA_DIR=" + dir, "HEADGATE_STORE=redis://127.0.0.1:1"}
			start(t, headgate, environ, files["headgate.yaml"], "--config", filepath.Join(dir, "headgate.yaml"))
		})
	}
}

// start runs headgate serve until it is ready, and has it drain. A gateway that the configuration turns off stays off.
func start(t *testing.T, headgate string, environ []string, config string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const free = "127.0.0.1:0"
	listeners := []string{"serve", "--api-addr", free, "--grpc-addr", free, "--admin-addr", free, "--log-format", "json"}
	args = append(listeners, args...)
	if !strings.Contains(config, `gateway_addr: "off"`) {
		args = append(args, "--gateway-addr", free)
	}
	c := exec.CommandContext(ctx, headgate, args...)
	c.Env = append(os.Environ(), environ...)
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	log := bufio.NewScanner(stderr)
	admin, lines := adminAddress(log)
	if admin != "" {
		waitReady(ctx, t, admin)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil && admin != "" {
		t.Error(err)
	}
	for log.Scan() { // until the process has ended
		lines += log.Text() + "\n"
	}
	if err := c.Wait(); err != nil || admin == "" {
		t.Errorf("headgate %s: %v\n%s", strings.Join(args, " "), err, lines)
	}
}

// adminAddress reads the log up to the line with the address of the admin listener.
func adminAddress(log *bufio.Scanner) (addr, lines string) {
	for log.Scan() {
		lines += log.Text() + "\n"
		var line struct{ Msg, Admin string }
		if json.Unmarshal(log.Bytes(), &line) == nil && line.Msg == "listening" {
			return line.Admin, lines
		}
	}
	return "", lines
}

func waitReady(ctx context.Context, t *testing.T, admin string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Errorf("not ready: %s", body)
			return
		}
	}
}
