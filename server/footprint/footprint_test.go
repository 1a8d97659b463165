package footprint

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	maxSize  = 50_000_000 // bytes of the program
	maxStart = 300 * time.Millisecond
	maxIdle  = 45_000_000 // bytes of resident memory
)

// build builds the program with the tags and linker flags of a release, and with more of its settings in the environment
// env.
func build(t *testing.T, env ...string) string {
	t.Helper()
	const tags = "grpcnotrace" // without gRPC's pages for tracing, whose templates cost 15 MB
	binary := filepath.Join(t.TempDir(), "headgate")
	c := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-tags", tags, "-ldflags", "-s -w",
		"-o", binary, "./server/cmd/headgate")
	c.Dir, c.Env = "../..", append(os.Environ(), env...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

func TestReleasedProgramIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	info, err := os.Stat(build(t))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxSize {
		t.Errorf("got %.1f MB, want at most %.1f: look for a package that uses text/template, which makes the linker keep "+
			"every method of every type", float64(info.Size())/1e6, float64(maxSize)/1e6)
	}
	t.Logf("%.1f MB", float64(info.Size())/1e6)
}

// TestSoakStart measures the start and the memory without load, as make soak does: other programs on the machine would
// distort it.
func TestSoakStart(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("set HEADGATE_SOAK=1, as make soak does")
	}
	binary := build(t, "CGO_ENABLED=0")
	var starts []time.Duration
	var idle []int64
	for range 5 {
		start, rss := measure(t, binary)
		starts, idle = append(starts, start), append(idle, rss)
	}
	slices.Sort(starts)
	slices.Sort(idle)
	start, rss := starts[len(starts)/2], idle[len(idle)/2]
	t.Logf("first 200 after %v of %v; %.1f MB resident without load of %v", start, starts, float64(rss)/1e6, idle)
	if start > maxStart {
		t.Errorf("first 200 after %v, want at most %v", start, maxStart)
	}
	if rss > maxIdle {
		t.Errorf("%.1f MB resident, want at most %.1f", float64(rss)/1e6, float64(maxIdle)/1e6)
	}
}

// measure starts the program with its built-in service, and returns the time until its gateway responds with 200, and
// the resident memory some seconds later.
func measure(t *testing.T, binary string) (start time.Duration, rss int64) {
	t.Helper()
	began := time.Now()
	p := startProgram(t, binary)
	awaitOK(t, p.gateway)
	start = time.Since(began)
	<-time.After(5 * time.Second) // the time in which it becomes idle is what is measured
	rss = resident(t, p.pid)
	p.stop()
	return start, rss
}

// running is a program that runs.
type running struct {
	pid                             int
	gateway, api, grpc, resp, admin string
	stop                            func()
}

// startProgram starts the program with its built-in service and more flags, and stops it when the test ends.
func startProgram(t *testing.T, binary string, flags ...string) *running {
	t.Helper()
	c := exec.Command(binary, append([]string{
		"serve", "--gateway-addr", "127.0.0.1:0", "--api-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--resp-addr", "127.0.0.1:0",
		"--admin-addr", "127.0.0.1:0", "--data-dir", t.TempDir(), "--log-format", "json",
	}, flags...)...)
	logs, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan *running, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		readAddresses(bufio.NewScanner(logs), listening)
	}()
	stop := sync.OnceFunc(func() {
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-ended
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	select {
	case p := <-listening:
		p.pid, p.stop = c.Process.Pid, stop
		return p
	case <-time.After(20 * time.Second):
		t.Fatal("the gateway does not listen")
		return nil
	}
}

// readAddresses reads log lines, and sends the addresses.
func readAddresses(lines *bufio.Scanner, listening chan<- *running) {
	for lines.Scan() {
		var line struct{ Msg, Gateway, API, GRPC, RESP, Admin string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" && line.Gateway != "" {
			listening <- &running{gateway: line.Gateway, api: line.API, grpc: line.GRPC, resp: line.RESP, admin: line.Admin}
		}
	}
}

func awaitOK(t *testing.T, addr string) {
	t.Helper()
	client := &http.Client{Timeout: time.Second}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(r)
		if err == nil {
			_ = response.Body.Close() // only the status matters
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("%s does not respond with 200: %v", addr, err)
		}
	}
}

// resident returns the resident memory of a process.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	var kib int64
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
