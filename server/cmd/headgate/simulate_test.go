package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
	const text = "duration: 30d\nlimits: [10/s]\ntraffic: [{ rate: 10 }, { log: access.log }]\n"
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
	// The command has simulated some requests when it has read more than fits into the pipe and its buffer.
	const size = 1 << 20
	for written, at := 0, time.Now(); written < size; at = at.Add(time.Second) {
		n, err := fmt.Fprintf(pipe, "{\"time\":%q,\"ip\":\"192.0.2.1\"}\n", at.Format(time.RFC3339))
		if err != nil {
			t.Fatal(err)
		}
		written += n
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

// interruptedSimulation starts a simulation and interrupts it after it has begun. It returns the output.
func interruptedSimulation(t *testing.T, text string, flags ...string) (stdout string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scenario.yaml")
	writeFile(t, file, text)
	cmd := exec.CommandContext(t.Context(), "headgate", append(append([]string{"simulate"}, flags...), file)...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // nothing shows that an event has begun that takes hours
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer killer.Stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitInterrupted {
		t.Fatalf("got %v, want exit code %d\n%s", err, cli.ExitInterrupted, stderr.String())
	}
	return out.String()
}

// Sources search billions of times for their next request.
func TestSimulationIsInterruptedBetweenTwoRequests(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"sample":  "sample_one_in: 1000000000\ntraffic: [{ rate: 100M, clients: 1000000000 }]\n",
		"diurnal": "traffic: [{ rate: 0.0001, peak: 100M, pattern: diurnal }]\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := interruptedSimulation(t, "duration: 30d\nlimits: [10/s]\n"+text)
			if want := "token-bucket  local ("; !strings.Contains(out, want) {
				t.Errorf("got %s, want %q", out, want)
			}
		})
	}
}

func TestInterruptedSimulationListsModesThatDidNotRun(t *testing.T) {
	t.Parallel()
	const text = "duration: 30d\nlimits: [10/s]\nmodes: [local, exact]\ntraffic: [{ rate: 10k, clients: 100 }]\n"
	out := interruptedSimulation(t, text, "--parallel", "1")
	for _, want := range []string{"local (partial) ", "exact (not simulated) ", "token-bucket exact: not simulated, because"} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s, want %q", out, want)
		}
	}
	var results sim.Results
	if err := json.Unmarshal([]byte(interruptedSimulation(t, text, "--parallel", "1", "-o", "json")), &results); err != nil {
		t.Fatal(err)
	}
	if !results.Partial || len(results.Results) != 2 || !results.Results[1].Partial || results.Results[1].Requests != 0 {
		t.Errorf("got %+v, want two partial results, the second without requests", results)
	}
}
