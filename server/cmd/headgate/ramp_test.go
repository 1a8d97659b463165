package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/ladder"
)

const rampRules = `rules:
  - { id: per-key, key: api_key, limits: 20/s }
`

// A real node is held to 20/s whichever way it is asked. 60 requests at 100/s take 2.01 s; without a limit they would
// take 0.6 s, which is more than a period away.
func TestRampMeasuresANodeInRealTime(t *testing.T) {
	t.Parallel()
	node := serve(t, onFreePort("--rules", rulesFile(t, rampRules))...)
	for name, args := range map[string][]string{
		"gateway":       {"--target", "http://" + node.gateway + "/"},
		"decision API":  {"--target", "http://" + node.api + "/v1/ratelimit", "--rule", "per-key"},
		"gRPC":          {"--target", "grpc://" + node.grpc, "--rule", "per-key"},
		"each retries":  {"--target", "grpc://" + node.grpc, "--rule", "per-key", "--each"},
		"RESP, a rule":  {"--target", "redis://" + node.resp, "--rule", "per-key"},
		"RESP, a limit": {"--target", "redis://" + node.resp},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := append([]string{"bench", "ramp", "--step", "60@100", "-o", "json"}, args...)
			out, err := exec.CommandContext(t.Context(), "headgate", command...).Output()
			if err != nil {
				t.Fatalf("%v: %v\n%s", command, err, out)
			}
			var report struct {
				Steps []ladder.Result `json:"steps"`
			}
			if err := json.Unmarshal(out, &report); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if len(report.Steps) != 1 || report.Steps[0].Admitted != 60 || !report.Steps[0].WithinOnePeriod || report.Steps[0].Attempts < 61 {
				t.Errorf("got %+v, want 60 admitted after denials, within a period of 2.01 s", report.Steps)
			}
		})
	}
}

// One request after the other would take 6 s.
func TestRampDoesNotMeasureTheServiceBehindAGateway(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(100 * time.Millisecond) }))
	t.Cleanup(service.Close)
	node := serve(t, onFreePort("--rules", rulesFile(t, rampRules), "--upstream", service.URL)...)
	code, stdout, stderr := run(t, "bench", "ramp", "--step", "60@100", "--target", "http://"+node.gateway+"/")
	if code != 0 {
		t.Errorf("got exit code %d, want 60 admitted within a period of 2.01 s\n%s%s", code, stdout, stderr)
	}
}

// The target's limit is 20/s, and the command is told that it is 100/s.
func TestRampNoticesAnotherLimit(t *testing.T) {
	t.Parallel()
	node := serve(t, onFreePort("--rules", rulesFile(t, rampRules))...)
	code, stdout, stderr := run(t, "bench", "ramp", "--step", "60@100", "--limit", "100/s",
		"--target", "grpc://"+node.grpc, "--rule", "per-key")
	if code != cli.ExitDiffers {
		t.Errorf("got exit code %d, want %d\n%s%s", code, cli.ExitDiffers, stdout, stderr)
	}
}

// The service interrupts the command when it gets the first request.
func TestInterruptedBenchmarksShowWhatTheyMeasured(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		" interrupted\n": {"ramp", "--step", "1000@1000"},
		"\nInterrupted: these are the figures until then.\n": {"load", "--rate", "1000", "--duration", "1h"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			started := make(chan *exec.Cmd, 1)
			interrupt := sync.OnceFunc(func() {
				if err := (<-started).Process.Signal(syscall.SIGINT); err != nil {
					t.Error(err)
				}
			})
			service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { interrupt() }))
			t.Cleanup(service.Close)
			args := append(append([]string{"bench"}, args...), "--target", service.URL+"/")
			cmd := exec.CommandContext(t.Context(), "headgate", args...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			started <- cmd
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitInterrupted {
				t.Errorf("got %v, want exit code %d\n%s", err, cli.ExitInterrupted, stderr.String())
			}
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("got %s, want %q", stdout.String(), want)
			}
		})
	}
}
