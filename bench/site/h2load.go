package site

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// HTTP2Streams is the number of requests in flight on each HTTP/2 connection.
const HTTP2Streams = 4

// H2Load sends requests to an address over HTTP/2 and TLS, as fast as it responds, for the given number of connections
// and time.
func (s *Site) H2Load(ctx context.Context, address string, connections int, length time.Duration) (WrkRun, error) {
	path, err := Program("h2load")
	if err != nil {
		return WrkRun{}, err
	}
	seconds := max(1, int(length.Round(time.Second)/time.Second)) // it knows no less
	cmd := exec.Command(path, "-t", "1", "-c", strconv.Itoa(connections), "-m", strconv.Itoa(HTTP2Streams),
		"-D", strconv.Itoa(seconds), "-H", ":authority: "+LoadHost, "-H", "x-api-key: first",
		"https://"+address+"/api/v1/orders/1")
	if err := comesFirst(cmd); err != nil {
		return WrkRun{}, err
	}
	p, err := StartProcess(s.LoadCore, cmd)
	if err != nil {
		return WrkRun{}, err
	}
	defer p.Stop()
	if err := p.Finish(ctx, time.Duration(seconds)*time.Second+startupTime); err != nil {
		return WrkRun{}, fmt.Errorf("h2load: %w", err)
	}
	run, err := parseH2Load(p.Said.String())
	run.Micros = int64(seconds) * 1e6
	return run, err
}

var (
	h2loadRequests = regexp.MustCompile(`requests: .* (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout`)
	h2loadStatuses = regexp.MustCompile(`status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx`)
)

// parseH2Load parses the output of h2load.
func parseH2Load(text string) (run WrkRun, err error) {
	requests, statuses := h2loadRequests.FindStringSubmatch(text), h2loadStatuses.FindStringSubmatch(text)
	if requests == nil || statuses == nil {
		return run, errors.New("h2load says nothing about its requests: " + text)
	}
	for i, to := range []*int64{&run.Requests, &run.Read, &run.Write, &run.Timeout} {
		if *to, err = strconv.ParseInt(requests[i+1], 10, 64); err != nil {
			return run, err
		}
	}
	for _, text := range statuses[2:] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return run, err
		}
		run.Refused += n
	}
	return run, nil
}
