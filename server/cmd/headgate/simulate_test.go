package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/sim"
)

// An interrupted simulation prints and writes what it has so far, marked as partial. It reads a log from a pipe, so that
// it is under way when it is interrupted.
func TestInterruptedSimulationKeepsItsResults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(file("access.log"), 0o600); err != nil {
		t.Skipf("no pipe: %v", err)
	}
	const text = "duration: 30d\nlimits: [10/s]\ntraffic: [{ rate: 10k }, { log: access.log }]\n"
	if err := os.WriteFile(file("scenario.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "headgate", "simulate", "-o", "json", "--html", file("report.html"), file("scenario.yaml"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(file("access.log"), os.O_WRONLY, 0) // until the simulation opens it, too
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitInterrupted {
		t.Errorf("got %v, want exit code %d\n%s", err, cli.ExitInterrupted, stderr.String())
	}
	var results sim.Results
	if err := json.Unmarshal(stdout.Bytes(), &results); err != nil {
		t.Fatalf("%v\n%s", err, stdout.String())
	}
	if len(results.Results) != 1 || !results.Results[0].Partial || results.Results[0].Requests == 0 {
		t.Errorf("got %s, want one partial result with requests", stdout.String())
	}
	page, err := os.ReadFile(file("report.html"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "token-bucket local is partial: the first "; !strings.Contains(string(page), want) {
		t.Errorf("the report has no %q", want)
	}
	if want := "interrupted; the results are partial"; !strings.Contains(stderr.String(), want) {
		t.Errorf("got %q on standard error, want %q", stderr.String(), want)
	}
}
