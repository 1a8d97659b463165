package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/service/httpapi"
)

func httpScenarios() []harness.Scenario {
	return []harness.Scenario{
		{Name: "http-single", Seconds: 90, Run: runHTTPSingle},
		{Name: "http-batch", Seconds: 60, Run: runHTTPBatch},
		{Name: "http-idle", Seconds: 60, Run: runHTTPIdle},
	}
}

func httpServers() map[string]serviceServer {
	return map[string]serviceServer{"http": serveHTTP, "http-floor": serveHTTPFloor}
}

// serveHTTP serves decisions like the headgate program.
func serveHTTP(l net.Listener, _ string) (func() error, error) {
	store, e, err := eachUser(httpRate)
	if err != nil {
		return nil, err
	}
	api, err := httpapi.New(httpapi.Config{Engine: e})
	if err != nil {
		return nil, err
	}
	s, err := service.NewHTTP(service.HTTPConfig{Handler: api})
	if err != nil {
		return nil, err
	}
	return serveDecisions(l, s, store), nil
}

// The types of requests and responses, as a program would define them for encoding/json.
type (
	httpRequest struct {
		RuleID     string            `json:"ruleId"`
		Client     httpClient        `json:"client"`
		Attributes map[string]string `json:"attributes"`
		Cost       *int64            `json:"cost"`
	}
	httpClient struct {
		UserID   string `json:"userId"`
		ClientIP string `json:"clientIP"`
		APIKey   string `json:"apiKey"`
	}
	httpAnswer struct {
		Status            int       `json:"status,omitempty"`
		Passed            bool      `json:"passed"`
		Limit             int64     `json:"limit"`
		RemainingRequests int64     `json:"remainingRequests"`
		ResetTimestamp    time.Time `json:"resetTimestamp"`
		RetryAfterMs      int64     `json:"retryAfterMs"`
		DelayMs           int64     `json:"delayMs"`
		RuleID            string    `json:"ruleId"`
		Degraded          bool      `json:"degraded"`
	}
)

func httpFloorAnswer(status int) httpAnswer {
	return httpAnswer{
		Status: status, Passed: true, Limit: httpRate, RemainingRequests: httpRate - 1, ResetTimestamp: time.Now().UTC().Truncate(time.Millisecond),
		RuleID: "each-user",
	}
}

// serveHTTPFloor is a plain handler that decodes and encodes the same JSON but makes no decision.
func serveHTTPFloor(l net.Listener, _ string) (func() error, error) {
	answer := func(w http.ResponseWriter, r *http.Request, into any, answer func() any) {
		if err := json.NewDecoder(r.Body).Decode(into); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer()) // the load counts answers that do not come
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/ratelimit", func(w http.ResponseWriter, r *http.Request) {
		var q httpRequest
		answer(w, r, &q, func() any { return httpFloorAnswer(0) })
	})
	mux.HandleFunc("POST /v1/ratelimit:batch", func(w http.ResponseWriter, r *http.Request) {
		var list []httpRequest
		answer(w, r, &list, func() any {
			answers := make([]httpAnswer, len(list))
			for i := range answers {
				answers[i] = httpFloorAnswer(http.StatusOK)
			}
			return answers
		})
	})
	s := &http.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return func() error {
		err := s.Close()
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		return err
	}, nil
}

const (
	// httpRate is the limit of a client in decisions per second. It is never reached, so all requests take units.
	httpRate = 100_000
	// httpBodies is the number of different calls, and httpUsers the number of clients in them.
	httpBodies = 2000
	httpUsers  = 100_000
	httpBatch  = 100
)

// httpDecision is the request for a decision about a client.
func httpDecision(user int) string {
	return `{"client":{"userId":"user-` + strconv.Itoa(user) +
		`","clientIP":"192.0.2.1"},"attributes":{"path":"/search"},"cost":1}`
}

// httpCalls returns calls for wrk, each with the given number of decisions.
func httpCalls(batch int) []string {
	calls := make([]string, httpBodies)
	user := 0
	next := func() string {
		user = (user + 7919) % httpUsers
		return httpDecision(user)
	}
	for i := range calls {
		path, body := "/v1/ratelimit", ""
		if batch == 1 {
			body = next()
		} else {
			list := make([]string, batch)
			for j := range list {
				list[j] = next()
			}
			path, body = "/v1/ratelimit:batch", "["+strings.Join(list, ",")+"]"
		}
		calls[i] = "POST " + path + " HTTP/1.1\r\nHost: decisions\r\nContent-Type: application/json\r\nContent-Length: " +
			strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	return calls
}

// An httpLoad has the settings of wrk.
type httpLoad struct{ connections, batch int }

func (l httpLoad) ask(ctx context.Context, s *site.Site, at site.RunningServer) (loadResult, error) {
	calls := httpCalls(l.batch)
	if l.batch > 1 {
		calls = calls[:200]
	}
	run, err := s.Wrk(ctx, "http://"+at.Address, calls, l.connections, s.Bench.Sizes.LoadLength)
	if err != nil {
		return loadResult{}, err
	}
	if err := run.Broken(); err != nil {
		return loadResult{}, err
	}
	if run.Refused > 0 {
		return loadResult{}, fmt.Errorf("%d of %d calls were refused, want none", run.Refused, run.Requests)
	}
	return loadResult{
		Ops: run.Requests * int64(l.batch), Took: time.Duration(run.Micros) * time.Microsecond,
		P50: time.Duration(run.P50) * time.Microsecond, P99: time.Duration(run.P99) * time.Microsecond,
	}, nil
}

// httpContestants returns headgate and the floor with the same load.
func httpContestants(l httpLoad) []serviceContender {
	return []serviceContender{
		{
			name: "headgate", title: "**headgate**", role: harness.Ours, server: "headgate", open: openServer("http", ""),
			run: l.ask,
		},
		{
			name: "floor", title: "net/http and encoding/json, decides nothing", role: harness.Floor, server: "floor",
			open: openServer("http-floor", ""), run: l.ask,
		},
	}
}

func runHTTPSingle(ctx context.Context, b *harness.Bench) error {
	table := harness.ServiceTable{ID: "http-single", Title: "HTTP with JSON, 64 connections, 2 k clients"}
	return runService(ctx, b, table, httpContestants(httpLoad{connections: 64, batch: 1}))
}

func runHTTPBatch(ctx context.Context, b *harness.Bench) error {
	table := harness.ServiceTable{ID: "http-batch", Title: "HTTP with JSON, 16 connections, batches of 100"}
	return runService(ctx, b, table, httpContestants(httpLoad{connections: 16, batch: httpBatch}))
}

func runHTTPIdle(ctx context.Context, b *harness.Bench) error {
	table := harness.ServiceTable{
		ID: "http-idle", Title: "HTTP with JSON, one call at a time on an idle server",
		Timed: true,
	}
	return runService(ctx, b, table, httpContestants(httpLoad{connections: 1, batch: 1}))
}

func httpBars(r *harness.Results) []harness.Bar {
	return []harness.Bar{
		r.ServiceNamed("http-single").RatesAbove("headgate", "floor", "HTTP with JSON, wrk", 0.8, ""),
		r.ServiceNamed("http-idle").TailBelow("headgate", "floor", "HTTP with JSON, p99 of one call on an idle server", 1.3),
	}
}

func httpMethod(b *strings.Builder, _ *harness.Results) {
	fmt.Fprintf(b, `- HTTP: wrk sends %d different calls by turns, each about another client, whose limit none meets. headgate answers with RateLimit and
  X-RateLimit fields, as it does by default. The floor is a plain http.Server and http.ServeMux with a handler that decodes the call into
  structs and encodes an answer with the same fields, both with encoding/json, and sends no RateLimit fields. On the idle server one
  connection asks, and the next call is sent when the last was answered.
`, httpBodies)
}
