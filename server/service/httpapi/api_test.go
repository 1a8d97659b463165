package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/service/httpapi"
)

const secret = "0123456789abcdef"

func token(t testing.TB) *service.Token {
	t.Helper()
	made, err := service.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestCallsNeedTheToken(t *testing.T) {
	a := newAPI(t, "rules: [{ id: per-user, key: user, limits: 100/h }]", httpapi.Config{Token: token(t)})
	for _, path := range []string{"/v1/ratelimit", "/v1/ratelimit:batch", "/v1/ratelimit:release"} {
		r := a.call("POST", path, "{}")
		if r.StatusCode != http.StatusUnauthorized || r.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: got %d %v, want 401 Bearer", path, r.StatusCode, r.Header)
		}
		if r := a.call("POST", path, "[}", "Authorization", "Bearer "+secret); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %d with the token, want 400 for the body", path, r.StatusCode)
		}
	}
	a.wants(t, 401, "", "GET", "/v1/forward-auth", "")
	a.wants(t, 401, "", "GET", "/v1/forward-auth", "", "X-Headgate-Token", "another that is as long")
	a.wants(t, 200, "", "GET", "/v1/forward-auth", "", "X-Headgate-Token", secret)
	a.wants(t, 200, "", "GET", "/v1/forward-auth", "", "Authorization", "Bearer "+secret)
	a.wants(t, 200, "openapi", "GET", "/openapi.json", "")
}

func TestBodiesNeedNoContentType(t *testing.T) {
	a := newAPI(t, "rules: [{ id: per-user, key: user, limits: 100/h }]", httpapi.Config{})
	for kind, want := range map[string]int{
		"": 200, "application/json": 200, "application/x-www-form-urlencoded": 200, "text/plain": 200,
		"application/yaml": 415, "multipart/form-data; boundary=x": 415,
	} {
		var headers []string
		if kind != "" {
			headers = []string{"Content-Type", kind}
		}
		a.wants(t, want, "", "POST", "/v1/ratelimit", `{"client":{"userId":"alice"}}`, headers...)
	}
}

func TestWrongTokensAreThrottled(t *testing.T) {
	a := newAPI(t, "rules: [{ id: per-user, key: user, limits: 100/h }]", httpapi.Config{Token: token(t), Logins: newLogins(t, 10)})
	calls := [][2]string{{"POST", "/v1/ratelimit"}, {"POST", "/v1/ratelimit:batch"}, {"GET", "/v1/forward-auth"}}
	for i := range 10 {
		c := calls[i%len(calls)]
		a.wants(t, 401, "", c[0], c[1], "", "Authorization", "Bearer a-wrong-one")
	}
	for _, c := range calls {
		r := a.call(c[0], c[1], "", "Authorization", "Bearer "+secret)
		if r.StatusCode != 429 || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s: got %d %v with the token, want 429 with Retry-After", c[1], r.StatusCode, r.Header)
		}
	}
	a.wants(t, 429, "", "GET", "/v1/forward-auth", "", "X-Headgate-Token", secret)
	a.wants(t, 401, "", "POST", "/v1/ratelimit", "") // no token
}

// The API reports a delay and does not wait. So a caller that waits does not count as waiting here.
func TestDelayIsReportedNotWaited(t *testing.T) {
	a := newAPI(t, "rules: [{ id: line, key: user, limits: 1/m, on_limit: delay 5m }]", httpapi.Config{})
	const body = `{"client":{"userId":"a"}}`
	a.wants(t, 200, `"delayMs":0`, "POST", "/v1/ratelimit", body)
	a.wants(t, 200, `"delayMs":60000`, "POST", "/v1/ratelimit", body)
	a.wants(t, 200, `"delayMs":120000`, "POST", "/v1/ratelimit", body)
	if n := a.engine.Waiting(); n != 0 {
		t.Errorf("got %d who wait, want none", n)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	a := newAPI(t, "rules: []", httpapi.Config{MaxBody: 1 << 10, MaxBatch: 3, MaxBuffered: 1 << 10})
	long := `{"ruleId":"` + strings.Repeat("x", 2<<10) + `"}`
	a.wants(t, 413, "1024 bytes", "POST", "/v1/ratelimit", long)
	a.wants(t, 413, "1024 bytes", "POST", "/v1/ratelimit:batch", long)
	a.wants(t, 413, "1024 bytes", "POST", "/v1/ratelimit:release", long)
	a.wants(t, 200, "passed", "POST", "/v1/ratelimit:batch", "[{},{},{}]")
	a.wants(t, 400, "1:11: too many decisions in one batch: want at most 3", "POST", "/v1/ratelimit:batch", "[{},{},{}, {}]")

	many := make([]string, 65)
	for i := range many {
		many[i] = `"descriptor.` + strconv.Itoa(i) + `":""`
	}
	b := newAPI(t, "rules: []", httpapi.Config{})
	b.wants(t, 200, "passed", "POST", "/v1/ratelimit", `{"attributes":{`+strings.Join(many[:64], ",")+`}}`)
	b.wants(t, 400, "too many attributes: want at most 64", "POST", "/v1/ratelimit", `{"attributes":{`+strings.Join(many, ",")+`}}`)
}

// A body of unknown length is also bounded, and counts as buffered.
func TestBodyOfUnknownLengthIsBounded(t *testing.T) {
	a := newAPI(t, "rules: []", httpapi.Config{MaxBody: 8 << 10, MaxBuffered: 8 << 10})
	s := httptest.NewServer(a)
	defer s.Close()
	post := func(body *slowBody) int {
		r, err := http.Post(s.URL+"/v1/ratelimit", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		return r.StatusCode
	}
	if got := post(&slowBody{left: 64 << 10}); got != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d, want 413", got)
	}
	// While one is being sent, another is refused.
	first := &slowBody{left: 1, started: make(chan struct{}), goOn: make(chan struct{})}
	done := make(chan int)
	go func() { done <- post(first) }()
	<-first.started
	await.NoError(t, "the place is free", func() error {
		if got := post(&slowBody{left: 1}); got != http.StatusServiceUnavailable {
			return fmt.Errorf("got %d beside a body that is on its way, want 503", got)
		}
		return nil
	})
	a.wants(t, 200, "passed", "POST", "/v1/ratelimit", "{}") // small bodies are not counted
	close(first.goOn)
	if got := <-done; got != http.StatusBadRequest {
		t.Errorf("got %d, want 400 for what was sent", got)
	}
	if got := post(&slowBody{left: 1}); got != http.StatusBadRequest {
		t.Errorf("got %d, want 400 where there is room again", got)
	}
}

// A slowBody sends spaces once the test allows it.
type slowBody struct {
	left          int
	started, goOn chan struct{}
	sent          bool
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.started != nil && b.sent {
		b.started <- struct{}{}
		b.started = nil
		<-b.goOn
	}
	n := min(len(p), b.left)
	if b.left -= n; n == 0 {
		return 0, io.EOF
	}
	for i := range p[:n] {
		p[i] = ' '
	}
	b.sent = true
	return n, nil
}

// Concurrent decisions of a batch have responses in the same order as sequential ones.
func TestBatchIsDecidedConcurrently(t *testing.T) {
	for _, parallel := range []int{1, 2, 64} {
		a := newAPI(t, "rules: [{ id: per-user, key: user, limits: 3/h }]", httpapi.Config{Parallel: parallel})
		var body []string
		for i := range 100 {
			body = append(body, fmt.Sprintf(`{"client":{"userId":"u%d"},"attributes":{"descriptor.n":"%d"}}`, i%10, i))
		}
		body = append(body, `{"ruleId":"none"}`)
		r := a.call("POST", "/v1/ratelimit:batch", "["+strings.Join(body, ",")+"]")
		var answers []struct{ Status int }
		if err := json.NewDecoder(r.Body).Decode(&answers); err != nil || len(answers) != 101 {
			t.Fatalf("parallel %d: got %d answers, %v", parallel, len(answers), err)
		}
		passed := make(map[int]int)
		for i, answer := range answers[:100] {
			if answer.Status == 200 {
				passed[i%10]++
			}
		}
		for user := range 10 {
			if passed[user] != 3 {
				t.Errorf("parallel %d: user %d: got %d that passed, want 3", parallel, user, passed[user])
			}
		}
		if got := answers[100].Status; got != 404 {
			t.Errorf("parallel %d: got %d at last, want 404", parallel, got)
		}
	}
}

// Calls share pooled memory, and must not see data of each other.
func TestManyCallsAtOnce(t *testing.T) {
	a := newAPI(t, "rules: [{ id: per-user, key: user, limits: 50/h }]", httpapi.Config{})
	var group sync.WaitGroup
	for user := range 8 {
		group.Go(func() {
			for n := range 60 {
				name := fmt.Sprintf("user %d é", user)
				r := a.call("POST", "/v1/ratelimit", fmt.Sprintf(`{"client":{"userId":%q},"attributes":{"path":"/%d"}}`, name, n))
				var d struct {
					Passed            bool
					RemainingRequests int
				}
				if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
					t.Error(err)
				}
				if d.Passed != (n < 50) || d.RemainingRequests != max(0, 49-n) {
					t.Errorf("user %d, call %d: got %+v", user, n, d)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestFieldsCanBeTurnedOff(t *testing.T) {
	a := newAPI(t, "rules: [{ id: per-user, key: user, fallback: skip, limits: 1/h }]",
		httpapi.Config{Fields: httplimit.Fields{NoRateLimit: true, NoXRateLimit: true}})
	r := a.call("POST", "/v1/ratelimit", `{"client":{"userId":"a"}}`)
	if len(r.Header) != 1 {
		t.Errorf("got %v, want Content-Type alone", r.Header)
	}
	r = a.call("POST", "/v1/ratelimit", `{"client":{"userId":"a"}}`)
	if got := r.Header.Get("Retry-After"); got != "3600" || len(r.Header) != 2 {
		t.Errorf("got %v, want Retry-After beside it", r.Header)
	}
}

func TestFurtherPathsAreServed(t *testing.T) {
	also := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	a := newAPI(t, "rules: []", httpapi.Config{
		Token: token(t), OtherHandlers: map[string]http.Handler{"/json": also},
	})
	a.wants(t, http.StatusTeapot, "", "POST", "/json", "")
	a.wants(t, 404, "nothing at", "GET", "/jsonx", "")
}

func TestBadSettingsAreRefused(t *testing.T) {
	e := newAPI(t, "rules: []", httpapi.Config{}).engine
	for want, c := range map[string]httpapi.Config{
		"no Engine":                         {},
		"MaxBody 1: want":                   {Engine: e, MaxBody: 1},
		"MaxBatch -1: want":                 {Engine: e, MaxBatch: -1},
		"Parallel 5000: want":               {Engine: e, Parallel: 5000},
		"MaxBuffered 1: want":               {Engine: e, MaxBuffered: 1},
		"Jitter -1s":                        {Engine: e, Fields: httplimit.Fields{Jitter: -time.Second}},
		`OtherHandlers "/openapi.json": wa`: {Engine: e, OtherHandlers: map[string]http.Handler{"/openapi.json": http.NotFoundHandler()}},
	} {
		if _, err := httpapi.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// An unreachable store neither delays nor fails calls.
func TestRuleDecidesWhenTheStoreIsUnreachable(t *testing.T) {
	a := newAPI(t, "rules: [{ id: open, when: { path: /open }, limits: 1/h }, { id: closed, when: { path: /closed }, limits: 1/h, on_failure: closed }]",
		httpapi.Config{})
	a.store.Unreachable.Store(true)
	a.wants(t, 200, `"degraded":true`, "POST", "/v1/ratelimit", `{"attributes":{"path":"/open"}}`)
	a.wants(t, 429, `"reason":"store failed","httpStatus":503`, "POST", "/v1/ratelimit", `{"attributes":{"path":"/closed"}}`)
	a.wants(t, 200, "", "GET", "/v1/forward-auth", "", "X-Forwarded-Uri", "/open")
	a.wants(t, 503, "cannot be checked right now", "GET", "/v1/forward-auth", "", "X-Forwarded-Uri", "/closed")
}

// A failed release is reported.
func TestFailedReleaseIsReported(t *testing.T) {
	a := newAPI(t, "rules: [{ id: jobs, limits: 1 concurrent ttl 30s }]", httpapi.Config{})
	var d struct{ LeaseID string }
	if err := json.NewDecoder(a.call("POST", "/v1/ratelimit", "{}").Body).Decode(&d); err != nil || d.LeaseID == "" {
		t.Fatalf("got %+v, %v, want a lease", d, err)
	}
	a.store.Unreachable.Store(true)
	a.wants(t, 500, "expires by itself", "POST", "/v1/ratelimit:release", `{"leaseId":"`+d.LeaseID+`"}`)
	a.store.Unreachable.Store(false)
	a.wants(t, 204, "", "POST", "/v1/ratelimit:release", `{"leaseId":"`+d.LeaseID+`"}`)
	if got := a.store.Gives.Load(); got != 2 {
		t.Errorf("got %d releases, want 2", got)
	}
}

// A delayed response may take longer than the server's timeouts.
func TestDelayedResponseOutlastsTimeouts(t *testing.T) {
	t.Parallel()
	a := newTimedAPI(t, "rules: [{ id: line, key: ip, limits: 1/3s, on_limit: delay 10s }]", httpapi.Config{})
	s, err := service.NewHTTP(service.HTTPConfig{
		Handler: a, HeaderTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	for i := range 2 {
		r, err := http.NewRequest(http.MethodGet, "http://"+l.Addr().String()+"/v1/forward-auth", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-Uri", "/")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("call %d: %v", i+1, err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("call %d: got %d, want 200", i+1, answer.StatusCode)
		}
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
