package site

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A WrkRun is the result of one run of wrk.
type WrkRun struct {
	Micros   int64
	Requests int64 // that were answered
	Refused  int64 // of those, with a status of 400 or above
	// These count connections that could not be opened, that failed while reading or writing, or on which a response took
	// twenty seconds.
	Connect, Read, Write, Timeout int64
	P50, P99                      int64 // µs, from when a request was sent
}

// PerSecond returns the rate of responses.
func (w WrkRun) PerSecond() float64 { return float64(w.Requests) / (float64(w.Micros) / 1e6) }

// Broken returns an error that describes failed connections.
func (w WrkRun) Broken() error {
	if w.Connect+w.Read+w.Write+w.Timeout > 0 {
		return fmt.Errorf("of its connections %d were not opened, %d failed when reading, %d when writing, %d timed out",
			w.Connect, w.Read, w.Write, w.Timeout)
	}
	return nil
}

//go:embed wrk.lua
var wrkProgram string

// wrkScript returns the script with which wrk sends requests in turn and prints the result as JSON.
func wrkScript(requests []string) string {
	var b strings.Builder
	b.WriteString("local requests = {\n")
	for _, text := range requests {
		// Go's string literals are valid in Lua for the characters of requests.
		b.WriteString(strconv.Quote(text) + ",\n")
	}
	b.WriteString("}\n" + wrkProgram)
	return b.String()
}

// Wrk sends the requests in turn to a URL, as fast as its server responds, for the given number of connections and time.
func (s *Site) Wrk(
	ctx context.Context, url string, requests []string, connections int, length time.Duration,
) (WrkRun, error) {
	path, err := Program("wrk")
	if err != nil {
		return WrkRun{}, err
	}
	script := filepath.Join(s.Dir, "wrk.lua")
	if err := os.WriteFile(script, []byte(wrkScript(requests)), 0o644); err != nil {
		return WrkRun{}, err
	}
	// wrk supports only whole seconds. So it gets more time than needed, and is interrupted at the right time.
	cmd := exec.Command(path, "-t", "1", "-c", strconv.Itoa(connections), "-d", "1h", "--timeout", "20s", "-s", script,
		url)
	if err := comesFirst(cmd); err != nil {
		return WrkRun{}, err
	}
	p, err := StartProcess(s.LoadCore, cmd)
	if err != nil {
		return WrkRun{}, err
	}
	defer p.Stop()
	if err := p.Await(ctx, func() error { return p.Said.has("ready\n") }); err != nil {
		return WrkRun{}, fmt.Errorf("wrk: %w", err)
	}
	select {
	case <-time.After(length):
	case <-p.Ended: // finish says how
	case <-ctx.Done():
		return WrkRun{}, ctx.Err()
	}
	if err := interrupt(p.Cmd.Process); err != nil {
		return WrkRun{}, fmt.Errorf("end wrk: %w", err)
	}
	if err := p.Finish(ctx, startupTime); err != nil {
		return WrkRun{}, fmt.Errorf("wrk: %w", err)
	}
	var run WrkRun
	if err := p.Said.Object(`"Micros"`, &run); err != nil {
		return WrkRun{}, fmt.Errorf("wrk: %w", err)
	}
	return run, nil
}
