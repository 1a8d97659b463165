package envoyrls_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/grpcwire"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/service"
	"github.com/headgate/headgate/service/envoyrls"
	"github.com/headgate/headgate/service/grpcapi"
)

// limits is a configuration of one limit by user.
func limits(domain string, perHour int) string {
	return fmt.Sprintf("domain: %s\ndescriptors:\n- key: user\n  rate_limit: {unit: hour, requests_per_unit: %d}\n", domain, perHour)
}

// asking returns a request for a user.
func asking(domain string, users ...string) *rlspb.RateLimitRequest {
	r := &rlspb.RateLimitRequest{Domain: domain}
	for _, user := range users {
		r.Descriptors = append(r.Descriptors, &ratelimitpb.RateLimitDescriptor{
			Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "user", Value: user}},
		})
	}
	return r
}

func newServer(t testing.TB, c envoyrls.Config) *envoyrls.Server {
	t.Helper()
	if c.Store == nil {
		c.Store = newSmallStore(t)
	}
	if c.Logger == nil {
		c.Logger = quiet
	}
	s, err := envoyrls.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// limitOf asks what the limit of a user is now, 0 if there is none.
func limitOf(t testing.TB, c rlspb.RateLimitServiceClient, domain string) uint32 {
	t.Helper()
	r, err := c.ShouldRateLimit(t.Context(), asking(domain, "u"))
	if err != nil {
		t.Fatal(err)
	}
	return r.Statuses[0].GetCurrentLimit().GetRequestsPerUnit()
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in 20 s", what)
		}
	}
}

func TestAConfigMapThatIsSwappedComesIntoForce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	revision := func(name string, perHour int) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, "limits.yaml", limits("api", perHour))
		return name
	}
	point := func(to string) { // as Kubernetes does it: a link is made beside and renamed over
		next := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(to, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	point(revision("..1", 1))
	if err := os.Symlink(filepath.Join("..data", "limits.yaml"), filepath.Join(dir, "limits.yaml")); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, envoyrls.Config{Path: dir})
	watching(t, s)
	client := dial(t, s)
	if got := limitOf(t, client, "api"); got != 1 {
		t.Fatalf("got %d an hour, want 1", got)
	}
	for i, name := range []string{"..2", "..3", "..4"} {
		point(revision(name, i+2))
		eventually(t, "the next revision", func() bool { return limitOf(t, client, "api") == uint32(i+2) })
	}
}

// watching has the server watch its configuration for the length of a test.
func watching(t testing.TB, s *envoyrls.Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Watch(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestFilesThatComeChangeAndGoAreFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("a", 1))
	s := newServer(t, envoyrls.Config{Path: dir})
	watching(t, s)
	client := dial(t, s)
	write(t, dir, "b.yaml", limits("b", 2))
	eventually(t, "a file that comes", func() bool { return limitOf(t, client, "b") == 2 })
	write(t, dir, "a.yaml", limits("a", 3))
	eventually(t, "a file that changes", func() bool { return limitOf(t, client, "a") == 3 })
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a file that goes", func() bool { return limitOf(t, client, "b") == 0 })
}

func TestAConfigurationThatIsWrongLeavesTheOneInForceAndIsCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 1))
	s := newServer(t, envoyrls.Config{Path: dir})
	client := dial(t, s)
	for name, spoil := range map[string]func(){
		"a wrong file":      func() { write(t, dir, "a.yaml", "domain: api\nwrong: 1\n") },
		"another that is":   func() { write(t, dir, "a.yaml", limits("api", 9)); write(t, dir, "b.yaml", "domain: [") },
		"a domain twice":    func() { write(t, dir, "b.yaml", limits("api", 9)) },
		"an empty file":     func() { write(t, dir, "b.yaml", "") },
		"no file any more":  func() { remove(t, dir, "a.yaml"); remove(t, dir, "b.yaml") },
		"no directory more": func() { _ = os.RemoveAll(dir) },
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		remove(t, dir, "b.yaml")
		write(t, dir, "a.yaml", limits("api", 1))
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
		before := s.Stats()
		spoil()
		if err := s.Reload(); err == nil {
			t.Errorf("%s: got no error", name)
		}
		after := s.Stats()
		if after.LoadsRefused != before.LoadsRefused+1 || after.Loads != before.Loads {
			t.Errorf("%s: got %d loads and %d refused after %d and %d, want one refused more", name, after.Loads, after.LoadsRefused, before.Loads, before.LoadsRefused)
		}
		if got := limitOf(t, client, "api"); got != 1 {
			t.Errorf("%s: got %d an hour, want the 1 before", name, got)
		}
		if !s.Healthy() {
			t.Errorf("%s: got unhealthy, want healthy", name)
		}
	}
}

func remove(t testing.TB, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

func TestWithoutAConfigurationRequestsAreRefusedUntilThereIsOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var health []bool
	s := newServer(t, envoyrls.Config{Path: dir, OnHealth: func(ok bool) { health = append(health, ok) }})
	client := dial(t, s)
	if _, err := client.ShouldRateLimit(t.Context(), asking("api", "u")); grpcstatus.Code(err) != codes.FailedPrecondition {
		t.Errorf("got %v, want FailedPrecondition", err)
	}
	if s.Healthy() || get(s, "/healthcheck") != http.StatusInternalServerError {
		t.Error("got healthy, want unhealthy")
	}
	write(t, dir, "a.yaml", limits("api", 1))
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := limitOf(t, client, "api"); got != 1 {
		t.Errorf("got %d an hour, want 1", got)
	}
	if !s.Healthy() || get(s, "/healthcheck") != http.StatusOK {
		t.Error("got unhealthy, want healthy")
	}
	s.Drain()
	if s.Healthy() || get(s, "/healthcheck") != http.StatusInternalServerError {
		t.Error("drained: got healthy, want unhealthy")
	}
	if got := limitOf(t, client, "api"); got != 1 {
		t.Errorf("drained: got %d an hour, want 1: it still answers", got)
	}
	if got := fmt.Sprint(health); got != "[true false]" {
		t.Errorf("got told %s, want [true false]", got)
	}
}

func get(s *envoyrls.Server, path string) int {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w.Code
}

func TestAConfigurationThatIsWrongAtTheStartIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", "domain: a\ndescriptors: 5\n")
	for name, c := range map[string]envoyrls.Config{
		"a wrong file": {Path: dir, Store: newSmallStore(t)},
		"no directory": {Path: filepath.Join(dir, "gone"), Store: newSmallStore(t)},
		"no store":     {Path: dir},
		"no engine":    {Store: newSmallStore(t)},
		"descriptors":  {Path: dir, Store: newSmallStore(t), Limits: envoyrls.Limits{Descriptors: -1}},
	} {
		if _, err := envoyrls.New(c); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestMoreThanARequestMayHaveIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 10))
	s := newServer(t, envoyrls.Config{Path: dir, Limits: envoyrls.Limits{Descriptors: 2, Entries: 2}})
	client := dial(t, s)
	many := asking("api", "a")
	for range 2 {
		many.Descriptors[0].Entries = append(many.Descriptors[0].Entries, &ratelimitpb.RateLimitDescriptor_Entry{Key: "k"})
	}
	for name, r := range map[string]*rlspb.RateLimitRequest{"descriptors": asking("api", "a", "b", "c"), "entries": many} {
		_, err := client.ShouldRateLimit(t.Context(), r)
		if grpcstatus.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "too many "+name) {
			t.Errorf("%s: got %v, want an InvalidArgument that says so", name, err)
		}
	}
	if _, err := client.ShouldRateLimit(t.Context(), asking("api", "a", "b")); err != nil {
		t.Errorf("as many as may be: got %v", err)
	}
	million := append(marshal(t, &rlspb.RateLimitRequest{Domain: "api"}), bytes.Repeat([]byte{0x12, 0x00}, 1_000_000)...)
	var call envoyrls.Call
	if _, err := call.Answer(t.Context(), s, million); grpcstatus.Code(err) != codes.InvalidArgument {
		t.Errorf("a million descriptors: got %v, want InvalidArgument", err)
	}
	if got := s.Stats(); got.Refused != 3 || got.Requests != 1 {
		t.Errorf("got %d refused and %d answered, want 3 and 1", got.Refused, got.Requests)
	}
}

// A meeting is a store that answers only once so many are asking.
type meeting struct {
	headgate.Limiter
	wait sync.WaitGroup
}

func (m *meeting) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	m.wait.Done()
	m.wait.Wait()
	return m.Limiter.Charge(ctx, c)
}

func TestAllDescriptorsAreAskedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 10))
	m := &meeting{Limiter: newSmallStore(t)}
	m.wait.Add(5)
	client := dial(t, newServer(t, envoyrls.Config{Path: dir, Store: m, CountDenied: true}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := client.ShouldRateLimit(ctx, asking("api", "a", "b", "c", "d", "e"))
	if err != nil {
		t.Fatal(err)
	}
	for i, st := range r.Statuses {
		if st.LimitRemaining != 9 {
			t.Errorf("status %d: got %d left, want 9", i, st.LimitRemaining)
		}
	}
}

// broken is a store that fails.
type broken struct{ headgate.Limiter }

var errBroken = errors.New("broken")

func (broken) Charge(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, errBroken
}

func (broken) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, errBroken
}

func TestThePolicyDecidesWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", "domain: api\ndescriptors:\n- {key: user, rate_limit: {unit: hour, requests_per_unit: 10}}\n- {key: banned, rate_limit: {unit: hour, requests_per_unit: 0}}\n")
	for policy, want := range map[headgate.Policy]string{
		headgate.Open:   "OK: OK 9 of 10/HOUR",
		headgate.Closed: "OVER_LIMIT: OVER_LIMIT 0 of 10/HOUR",
	} {
		var told atomic.Int64
		s := newServer(t, envoyrls.Config{
			Path: dir, Store: broken{}, CountDenied: true, OnFailure: policy,
			OnError: func(err error) {
				if errors.Is(err, errBroken) {
					told.Add(1)
				}
			},
		})
		client := dial(t, s)
		r, err := client.ShouldRateLimit(t.Context(), asking("api", "a"))
		if err != nil {
			t.Fatal(err)
		}
		if got := answerText(r); !strings.HasPrefix(got, want) {
			t.Errorf("%v: got %s, want %s", policy, got, want)
		}
		if told.Load() != 1 || s.Stats().Degraded != 1 {
			t.Errorf("%v: got told %d times and counted %d, want once each", policy, told.Load(), s.Stats().Degraded)
		}
		banned := asking("api", "a")
		banned.Descriptors[0].Entries[0].Key = "banned"
		if r, err = client.ShouldRateLimit(t.Context(), banned); err != nil || r.OverallCode != rlspb.RateLimitResponse_OVER_LIMIT {
			t.Errorf("%v: a limit of 0: got %v, %v; want OVER_LIMIT whatever the policy", policy, r, err)
		}
	}
}

func TestInterceptorsSeeTheCall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 10))
	var methods []string
	client := dial(t, newServer(t, envoyrls.Config{Path: dir}), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			methods = append(methods, info.FullMethod)
			if len(methods) > 1 {
				return nil, grpcstatus.Error(codes.Unauthenticated, "no")
			}
			return next(ctx, req)
		}))
	if r, err := client.ShouldRateLimit(t.Context(), asking("api", "a")); err != nil || r.Statuses[0].LimitRemaining != 9 {
		t.Errorf("got %v, %v; want 9 left", r, err)
	}
	if _, err := client.ShouldRateLimit(t.Context(), asking("api", "a")); grpcstatus.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v, want what the interceptor says", err)
	}
	if want := rlspb.RateLimitService_ShouldRateLimit_FullMethodName; methods[0] != want {
		t.Errorf("got %s, want %s", methods[0], want)
	}
}

func TestManyCallersGetExactlyTheLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", "domain: api\ndescriptors:\n- {key: user, rate_limit: {unit: year, requests_per_unit: 100}}\n")
	now := time.Unix(1_700_000_000, 0)
	client := dial(t, newServer(t, envoyrls.Config{
		Path: dir, CountDenied: true, Store: newStore(t, memstore.Options{MaxBytes: 8 << 20, Now: func() time.Time { return now }}),
	}))
	var passed [3]atomic.Int64
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			for i := range 30 {
				r, err := client.ShouldRateLimit(t.Context(), asking("api", fmt.Sprint("user", i%3), "other"))
				if err != nil {
					t.Error(err)
					return
				}
				if r.Statuses[0].Code == rlspb.RateLimitResponse_OK {
					passed[i%3].Add(1)
				}
			}
		})
	}
	group.Wait()
	for i := range passed {
		if got := passed[i].Load(); got != 100 {
			t.Errorf("user %d: got %d of 200 through, want 100", i, got)
		}
	}
}

func TestTheServerHoldsItsAnswerWhereARuleDelays(t *testing.T) {
	t.Parallel()
	doc, err := file.Parse("rules.yaml", []byte("rules:\n- {id: slow, key: [descriptor.user], fallback: skip, limits: [10/s burst 1], on_limit: delay 20s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	store := newSmallStore(t)
	e, err := engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	client := dial(t, newServer(t, envoyrls.Config{Engine: e, Store: store}))
	start := time.Now()
	const n = 5
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			r, err := client.ShouldRateLimit(t.Context(), asking("api", "u"))
			if err != nil || r.OverallCode != rlspb.RateLimitResponse_OK {
				t.Errorf("got %v, %v; want OK after a while", r, err)
			}
		})
	}
	group.Wait()
	if took, least := time.Since(start), (n-1)*100*time.Millisecond; took < least-time.Millisecond {
		t.Errorf("all %d passed in %v, want them to take %v at least", n, took, least)
	}
	// One who does not wait gets the error of his call, and his place is free again.
	for range 3 {
		if _, err := client.ShouldRateLimit(t.Context(), asking("api", "u")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		long := asking("api", "u")
		_, err := client.ShouldRateLimit(ctx, long)
		failed <- err
	}()
	eventually(t, "somebody waits", func() bool { return e.Waiting() > 0 || len(failed) > 0 })
	cancel()
	if err := <-failed; err != nil && grpcstatus.Code(err) != codes.Canceled {
		t.Errorf("got %v, want Canceled or an answer", err)
	}
	eventually(t, "nobody waits", func() bool { return e.Waiting() == 0 })
}

// A request that several rules delay is held for the longest of their times, and leaves nothing behind if its caller goes.
func TestARequestThatSeveralRulesDelayIsHeldOnce(t *testing.T) {
	t.Parallel()
	doc, err := file.Parse("rules.yaml", []byte("rules:\n- {id: slow, key: [descriptor.user], fallback: skip, limits: [1/s burst 1], on_limit: delay 30s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	store := newSmallStore(t)
	e, err := engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	client := dial(t, newServer(t, envoyrls.Config{Engine: e, Store: store}))
	request := &rlspb.RateLimitRequest{Domain: "api"}
	const n = 20
	for i := range n {
		request.Descriptors = append(request.Descriptors, &ratelimitpb.RateLimitDescriptor{
			Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprint("u", i)}},
		})
	}
	if _, err := client.ShouldRateLimit(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if r, err := client.ShouldRateLimit(t.Context(), request); err != nil || r.OverallCode != rlspb.RateLimitResponse_OK {
		t.Errorf("got %v, %v; want OK after a while", r, err)
	}
	if took := time.Since(start); took > n*time.Second/2 {
		t.Errorf("%d delays of a second took %v, want them to pass together", n, took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		for {
			if _, err := client.ShouldRateLimit(ctx, request); err != nil {
				failed <- err
				return
			}
		}
	}()
	eventually(t, "all wait", func() bool { return e.Waiting() == n })
	cancel()
	if err := <-failed; grpcstatus.Code(err) != codes.Canceled {
		t.Errorf("got %v, want Canceled", err)
	}
	eventually(t, "nobody waits", func() bool { return e.Waiting() == 0 })
}

func TestJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 1))
	token, err := service.NewToken("0123456789abcdef0123")
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return begin }
	config := envoyrls.Config{
		Path: dir, CountDenied: true, Now: now, Limits: envoyrls.Limits{Body: 1000}, Store: newStore(t, memstore.Options{MaxBytes: 8 << 20, Now: now}),
	}
	open := newServer(t, config).Handler()
	config.Token = token
	closed := newServer(t, config).Handler()
	good := `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`
	for _, c := range []struct {
		name, method, body string
		handler            http.Handler
		status             int
		want               string
	}{
		{"within", "POST", good, open, 200, `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":1,"unit":"HOUR"},"durationUntilReset":"3600s"}]}`},
		{"over", "POST", good, open, 429, `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":1,"unit":"HOUR"},"durationUntilReset":"3600s"}]}`},
		{"no domain", "POST", `{"descriptors":[{}]}`, open, 400, "domain must not be empty"},
		{"no descriptors", "POST", `{"domain":"api"}`, open, 400, "descriptor list must not be empty"},
		{"no JSON", "POST", `{"domain":`, open, 400, "no RateLimitRequest"},
		{"an unknown field", "POST", `{"domaine":"api"}`, open, 400, "domaine"},
		{"too large", "POST", `{"domain":"` + strings.Repeat("x", 1000) + `"}`, open, 413, "too large"},
		{"another method", "GET", "", open, 405, ""},
		{"no token", "POST", good, closed, 401, "token"},
	} {
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, httptest.NewRequest(c.method, "/json", strings.NewReader(c.body)))
		got := strings.ReplaceAll(w.Body.String(), " ", "")
		if w.Code != c.status || !strings.Contains(got, strings.ReplaceAll(c.want, " ", "")) {
			t.Errorf("%s: got %d %s\nwant %d %s", c.name, w.Code, w.Body, c.status, c.want)
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(good))
	r.Header.Set("Authorization", "bearer 0123456789abcdef0123")
	closed.ServeHTTP(w, r)
	if w.Code == http.StatusUnauthorized {
		t.Errorf("with the token: got %d %s", w.Code, w.Body)
	}
}

// A client must not get past limits by a header that cannot be sent as a text.
func TestAValueThatIsNotUTF8IsLimitedAllTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 1)+"- {key: agent}\n")
	s := newServer(t, envoyrls.Config{Path: dir, Store: newSmallStore(t), CountDenied: true})
	request := marshal(t, &rlspb.RateLimitRequest{Domain: "api", Descriptors: []*ratelimitpb.RateLimitDescriptor{
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "agent", Value: "XXXX"}}},
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "user", Value: "XXXX"}}},
	}})
	request = bytes.ReplaceAll(request, []byte("XXXX"), []byte("a\xff\xfeb"))
	var call envoyrls.Call
	for i, want := range []rlspb.RateLimitResponse_Code{rlspb.RateLimitResponse_OK, rlspb.RateLimitResponse_OVER_LIMIT} {
		data, err := call.Answer(t.Context(), s, request)
		if err != nil {
			t.Fatal(err)
		}
		var got rlspb.RateLimitResponse
		if err := proto.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if got.OverallCode != want {
			t.Errorf("request %d: got %v, want %v", i+1, got.OverallCode, want)
		}
	}
}

// It is not parallel: others would be measured too.
func TestJSONOfAMillionBytesTakesLittleMemory(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 1))
	handler := newServer(t, envoyrls.Config{Path: dir, Store: newSmallStore(t)}).Handler()
	body := `{"domain":"api","descriptors":[` + strings.Repeat("{},", 340_000) + `{}]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(body)))
	runtime.ReadMemStats(&after)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "at most 128 descriptors") {
		t.Errorf("got %d %s, want that it is too much", w.Code, w.Body)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 20<<20 {
		t.Errorf("%d bytes were allocated for %d, want at most twenty times as many", got, len(body))
	}
}

func TestLargeJSONThatDoesNotComeLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 1_000_000))
	handler := newServer(t, envoyrls.Config{Path: dir, Store: newSmallStore(t)}).Handler()
	post := func(body io.Reader) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", body))
		return w.Code
	}
	good := `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`
	large := good + strings.Repeat(" ", 10_000)
	var group sync.WaitGroup
	var ends []*io.PipeWriter
	for range 64 {
		body, end := io.Pipe()
		ends = append(ends, end)
		group.Go(func() { post(body) })
	}
	eventually(t, "there is no room for more", func() bool { return post(strings.NewReader(large)) == http.StatusServiceUnavailable })
	if got := post(strings.NewReader(good)); got != http.StatusOK {
		t.Errorf("a small one: got %d, want 200", got)
	}
	for _, end := range ends {
		_ = end.Close()
	}
	group.Wait()
	if got := post(strings.NewReader(large)); got != http.StatusOK {
		t.Errorf("a large one when there is room again: got %d, want 200", got)
	}
}

func TestHitsAreCountedByLimitAndNamesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", `
domain: api
descriptors:
- {key: plain, rate_limit: {unit: hour, requests_per_unit: 10}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: detailed, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 10}}
- key: route
  value_to_metric: true
  descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 10}}
- {key: file, value: f*, share_threshold: true, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 10}}
`)
	now := func() time.Time { return begin }
	s := newServer(t, envoyrls.Config{Path: dir, CountDenied: true, Now: now, Store: newStore(t, memstore.Options{MaxBytes: 16 << 20, Now: now})})
	client := dial(t, s)
	ask := func(hits uint32, pairs ...string) {
		r := &rlspb.RateLimitRequest{Domain: "api", HitsAddend: hits, Descriptors: []*ratelimitpb.RateLimitDescriptor{{}}}
		for i := 0; i < len(pairs); i += 2 {
			r.Descriptors[0].Entries = append(r.Descriptors[0].Entries, &ratelimitpb.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
		}
		if _, err := client.ShouldRateLimit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	ask(8, "plain", "x")
	ask(1, "plain", "x")
	ask(5, "plain", "x")
	ask(3, "shadow", "x")
	ask(1, "detailed", "one")
	ask(2, "detailed", "two")
	ask(4, "route", "GET", "user", "alice")
	ask(2, "file", "f1")
	ask(3, "file", "f2")
	hits := func() map[string]envoyrls.Hits {
		all := map[string]envoyrls.Hits{}
		for _, h := range s.Stats().Limits {
			all[h.Domain+"/"+h.Descriptor] = h
		}
		return all
	}
	for name, want := range map[string]envoyrls.Hits{
		"api/plain":          {Domain: "api", Descriptor: "plain", Within: 8, Near: 1, Over: 5},
		"api/shadow":         {Domain: "api", Descriptor: "shadow", Shadow: 3},
		"api/detailed_one":   {Domain: "api", Descriptor: "detailed_one", Within: 1},
		"api/detailed_two":   {Domain: "api", Descriptor: "detailed_two", Within: 2},
		"api/route_GET.user": {Domain: "api", Descriptor: "route_GET.user", Within: 4},
		"api/file_f*":        {Domain: "api", Descriptor: "file_f*", Within: 5},
		"api/route.user":     {Domain: "api", Descriptor: "route.user"},
	} {
		if got := hits()[name]; got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	// A change of the configuration goes on counting, and none is none.
	loads := s.Stats().Loads
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := hits()["api/detailed_two"].Within; got != 2 || s.Stats().Loads != loads {
		t.Errorf("after a reload without a change: got %d within and %d loads, want 2 and %d", got, s.Stats().Loads, loads)
	}
	write(t, dir, "b.yaml", limits("other", 1))
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := hits()["api/plain"].Within; got != 8 {
		t.Errorf("after a reload: got %d within, want 8", got)
	}
	ask(1, "detailed", strings.Repeat("long", 10_000))
	if got := hits(); got["api/(other)"].Within != 1 {
		t.Errorf("a value of 40,000 bytes: got %v, want it under (other)", got)
	}
	var call envoyrls.Call
	for i := range envoyrls.MaxDetailed + 500 {
		request := marshal(t, &rlspb.RateLimitRequest{Domain: "api", Descriptors: []*ratelimitpb.RateLimitDescriptor{
			{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "detailed", Value: fmt.Sprint("v", i)}}},
		}})
		if _, err := call.Answer(t.Context(), s, request); err != nil {
			t.Fatal(err)
		}
	}
	if got := hits()["api/(other)"].Within; got != 501 {
		t.Errorf("got %d hits under (other), want 501", got)
	}
}

// Clients that ask a server what it offers get to see the messages.
func TestReflectionKnowsTheService(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	store := newSmallStore(t)
	e, err := engine.New(engine.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	g, err := grpcapi.New(grpcapi.Config{Engine: e, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, envoyrls.Config{Engine: e, Store: store, OnHealth: func(ok bool) { g.SetServing(envoyrls.HealthName, ok) }})
	g.Register(s.Register)
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = conn.Close()
		if err := errors.Join(g.Shutdown(context.Background()), <-done); err != nil {
			t.Error(err)
		}
	}()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	answer := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: envoyrls.ServiceName}})
	if len(answer.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("got %v, want the files of the service", answer)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	health := healthpb.NewHealthClient(conn)
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
		got, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: envoyrls.HealthName})
		if err != nil || got.Status != want {
			t.Errorf("health: got %v, %v; want %v", got, err, want)
		}
		s.Drain()
	}
	if r, err := rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), asking("api", "u")); err != nil || r.OverallCode != rlspb.RateLimitResponse_OK {
		t.Errorf("got %v, %v; want OK", r, err)
	}
}

func TestBytesThatAreNoRequestGetACodeOfTheirOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 10))
	s := newServer(t, envoyrls.Config{Path: dir})
	conn := connect(t, s)
	for name, data := range map[string]string{
		"half a field":      "\x0a\x20api",
		"no UTF-8":          "\x0a\x02\xff\xfe",
		"a huge length":     "\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
		"an endless number": strings.Repeat("\xff", 100),
		"a group that ends": "\x0c",
		"nothing":           "",
	} {
		message := bytesMessage(data)
		err := conn.Invoke(t.Context(), rlspb.RateLimitService_ShouldRateLimit_FullMethodName, &message, new(bytesMessage), grpc.ForceCodecV2(grpcwire.Codec))
		if code := grpcstatus.Code(err); code != codes.Internal && code != codes.InvalidArgument {
			t.Errorf("%s: got %v, want Internal or InvalidArgument", name, err)
		}
	}
	// and others are not disturbed
	if r, err := rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), asking("api", "u")); err != nil || r.Statuses[0].LimitRemaining != 9 {
		t.Errorf("got %v, %v; want 9 left", r, err)
	}
}

// A bytesMessage is what it is on the wire.
type bytesMessage string

func (m *bytesMessage) MarshalWire(dst []byte) ([]byte, error) { return append(dst, *m...), nil }

func (m *bytesMessage) UnmarshalWire(b []byte) error {
	*m = bytesMessage(b)
	return nil
}
