package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	rlscommon "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/await"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
)

const apiToken = "correct-horse-battery-staple"

// command returns what a program of the system says.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("this test needs %s on the PATH: make test installs it", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// curl returns the status and the body that curl gets.
func curl(t *testing.T, args ...string) (status, body string) {
	t.Helper()
	out := command(t, "curl", append([]string{"-sS", "-w", "\n%{http_code}"}, args...)...)
	body, status = out[:strings.LastIndexByte(out, '\n')], out[strings.LastIndexByte(out, '\n')+1:]
	return status, body
}

// redisCLI returns what redis-cli gets, its lines one after the other.
func redisCLI(t *testing.T, addr string, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	out := command(t, "redis-cli", append([]string{"-h", host, "-p", port, "--no-auth-warning"}, args...)...)
	return strings.Join(strings.Fields(out), " ")
}

func dialGRPC(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

const serviceRules = `
rules:
  - { id: per-user, key: [user], fallback: skip, limits: [3/h] }
  - { id: slow, when: { path: /slow }, key: [ip], limits: [1/s], on_limit: delay 60s }
  - { id: tenants, when: { descriptor.tenant: '*' }, key: [descriptor.tenant], limits: [2/h] }
`

// All protocols ask one engine: what one of them takes the others see.
func TestEveryProtocolUsesTheSameEngine(t *testing.T) {
	t.Parallel()
	p := serve(t, onFreePort("--rules", rulesFile(t, serviceRules), "--config", newFile(t, "headgate.yaml", "identity: { user_from: basic }\n"))...)
	const body = `{"client":{"userId":"alice"}}`
	if status, got := curl(t, "-d", body, "http://"+p.api+"/v1/ratelimit"); status != "200" || !strings.Contains(got, `"remainingRequests":2`) {
		t.Errorf("HTTP: got %s %s, want 200 and 2 left", status, got)
	}
	if got := redisCLI(t, p.resp, "HG.TAKE", "per-user", "alice"); !strings.HasPrefix(got, "1 3 1 ") {
		t.Errorf("RESP: got %s, want 1 3 1", got)
	}
	conn := dialGRPC(t, p.grpc)
	response, err := headgatev1.NewRateLimiterClient(conn).RateLimit(t.Context(),
		&headgatev1.RateLimitRequest{RuleId: "per-user", Client: &headgatev1.Client{UserId: "alice"}})
	if err != nil || !response.GetPassed() || response.GetRemainingRequests() != 0 {
		t.Errorf("gRPC: got %v, %v, want it to pass with none left", response, err)
	}
	newClient(t, p.gateway, "Authorization", "Basic YWxpY2U6eA==").want(1, 429)
	if status, got := curl(t, "-d", body, "http://"+p.api+"/v1/ratelimit"); status != "429" || !strings.Contains(got, `"passed":false`) {
		t.Errorf("HTTP: got %s %s, want 429", status, got)
	}
	for i, want := range []rlspb.RateLimitResponse_Code{rlspb.RateLimitResponse_OK, rlspb.RateLimitResponse_OK, rlspb.RateLimitResponse_OVER_LIMIT} {
		got, err := rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rlspb.RateLimitRequest{
			Domain: "shop", Descriptors: []*rlscommon.RateLimitDescriptor{{Entries: []*rlscommon.RateLimitDescriptor_Entry{{Key: "tenant", Value: "acme"}}}},
		})
		if err != nil || got.GetOverallCode() != want {
			t.Errorf("Envoy, request %d: got %v, %v, want %v", i+1, got, err, want)
		}
	}
	const asked = `{"domain":"shop","descriptors":[{"entries":[{"key":"tenant","value":"acme"}]}]}`
	if status, got := curl(t, "-d", asked, "http://"+p.api+"/json"); status != "429" || !strings.Contains(got, "OVER_LIMIT") {
		t.Errorf("Envoy by JSON: got %s %s, want 429", status, got)
	}
	if status, got := curl(t, "http://"+p.api+"/healthcheck"); status != "200" || got != "OK" {
		t.Errorf("healthcheck: got %s %s, want 200 OK", status, got)
	}
	if got := redisCLI(t, p.resp, "CL.THROTTLE", "some-key", "2", "10", "60"); got != "0 3 2 -1 6" {
		t.Errorf("CL.THROTTLE: got %s, want 0 3 2 -1 6", got)
	}
	for _, listener := range []string{"api", "grpc", "resp"} {
		if got := p.metric(`headgate_service_connections_total{listener="` + listener + `",result="accepted"}`); got < 1 {
			t.Errorf("got %v connections to %s in the metrics, want some", got, listener)
		}
	}
	await.NoError(t, "the metrics to tell of Envoys' requests", func() error {
		if got := p.metric(`headgate_envoy_requests_total{code="over_limit"}`); got != 2 {
			return fmt.Errorf("got %v requests of Envoys over their limit, want 2", got)
		}
		return nil
	})
	if code := p.stop(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// A lease that one protocol hands out is renewed and released through any other.
func TestEveryProtocolRenewsALease(t *testing.T) {
	t.Parallel()
	p := serve(t, onFreePort("--rules", rulesFile(t, "rules: [{ id: jobs, limits: [1 concurrent ttl 1h] }]"))...)
	_, got := curl(t, "-d", "{}", "http://"+p.api+"/v1/ratelimit")
	var taken struct{ LeaseID string }
	if err := json.Unmarshal([]byte(got), &taken); err != nil || taken.LeaseID == "" {
		t.Fatalf("got %s, %v; want a lease", got, err)
	}
	body := `{"leaseId":"` + taken.LeaseID + `"}`
	const held = `{"held":true,"ttlMs":3600000}`
	if status, got := curl(t, "-d", body, "http://"+p.api+"/v1/ratelimit:renew"); status != "200" || strings.TrimSpace(got) != held {
		t.Errorf("HTTP: got %s %s, want 200 %s", status, got, held)
	}
	renewed, err := headgatev1.NewRateLimiterClient(dialGRPC(t, p.grpc)).Renew(t.Context(), &headgatev1.RenewRequest{LeaseId: taken.LeaseID})
	if err != nil || !renewed.GetHeld() || renewed.GetTtlMs() != 3600000 {
		t.Errorf("gRPC: got %v, %v; want it held for an hour", renewed, err)
	}
	if got := redisCLI(t, p.resp, "HG.RENEW", taken.LeaseID); got != "1 3600000" {
		t.Errorf("RESP: got %s, want 1 3600000", got)
	}
	if status, got := curl(t, "-d", "{}", "http://"+p.api+"/v1/ratelimit"); status != "429" {
		t.Errorf("another request: got %s %s, want 429: renewals take no second slot", status, got)
	}
	if status, got := curl(t, "-d", body, "http://"+p.api+"/v1/ratelimit:release"); status != "204" {
		t.Errorf("release: got %s %s, want 204", status, got)
	}
	if status, got := curl(t, "-d", "{}", "http://"+p.api+"/v1/ratelimit"); status != "200" {
		t.Errorf("after the release: got %s %s, want 200", status, got)
	}
}

func TestEveryProtocolRequiresTheToken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token.txt")
	writeFile(t, path, apiToken+"\n")
	p := serve(t, onFreePort("--rules", rulesFile(t, serviceRules), "--api-token-file", path)...)
	url := "http://" + p.api + "/v1/ratelimit"
	if status, got := curl(t, "-d", "{}", url); status != "401" || !strings.Contains(got, "Authorization: Bearer") {
		t.Errorf("HTTP without it: got %s %s, want 401", status, got)
	}
	if status, _ := curl(t, "-d", "{}", "-H", "Authorization: Bearer wrong-horse-battery-staple", url); status != "401" {
		t.Errorf("HTTP with another: got %s, want 401", status)
	}
	if status, got := curl(t, "-d", "{}", "-H", "Authorization: Bearer "+apiToken, url); status != "200" {
		t.Errorf("HTTP with it: got %s %s, want 200", status, got)
	}
	if status, _ := curl(t, "http://"+p.api+"/v1/forward-auth"); status != "401" {
		t.Errorf("forward-auth without it: got %s, want 401", status)
	}
	if status, _ := curl(t, "-d", "{}", "http://"+p.api+"/json"); status != "401" {
		t.Errorf("Envoy by JSON without it: got %s, want 401", status)
	}
	if got := redisCLI(t, p.resp, "CL.THROTTLE", "k", "2", "10", "60"); !strings.HasPrefix(got, "NOAUTH ") {
		t.Errorf("RESP without it: got %s, want NOAUTH", got)
	}
	if got := redisCLI(t, p.resp, "-a", apiToken, "CL.THROTTLE", "k", "2", "10", "60"); got != "0 3 2 -1 6" {
		t.Errorf("RESP with it: got %s", got)
	}
	conn := dialGRPC(t, p.grpc)
	ask := func(ctx context.Context) codes.Code {
		_, err := headgatev1.NewRateLimiterClient(conn).RateLimit(ctx, &headgatev1.RateLimitRequest{})
		return status.Code(err)
	}
	if got := ask(t.Context()); got != codes.Unauthenticated {
		t.Errorf("gRPC without it: got %v, want Unauthenticated", got)
	}
	with := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+apiToken)
	if got := ask(with); got != codes.OK {
		t.Errorf("gRPC with it: got %v, want OK", got)
	}
	_, err := rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rlspb.RateLimitRequest{Domain: "shop"})
	if got := status.Code(err); got != codes.Unauthenticated {
		t.Errorf("Envoy without it: got %v, want Unauthenticated", got)
	}
}

// What others can reach and everybody may ask is warned of, and only that.
func TestReachableListenersWithoutTokenAreWarnedAbout(t *testing.T) {
	t.Parallel()
	const warning = "other hosts can call the decision service without a token; require one with --api-token-file"
	rules := rulesFile(t, serviceRules)
	p := serve(t, "--gateway-addr", "off", "--rules", rules, "--api-addr", "0.0.0.0:0", "--resp-addr", ":0")
	var named []string
	for _, line := range p.logged(warning) {
		named = append(named, fmt.Sprint(line["listener"]))
	}
	if got := strings.Join(named, " "); got != "api resp" {
		t.Errorf("got warnings of %q, want of api and resp", got)
	}
	path := filepath.Join(t.TempDir(), "token.txt")
	if err := os.WriteFile(path, []byte(apiToken), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	q := serve(t, "--gateway-addr", "off", "--rules", rules, "--api-addr", "0.0.0.0:0", "--api-token-file", path)
	if got := q.logged(warning); len(got) > 0 {
		t.Errorf("got %v with a token, want no warning", got)
	}
	open := false
	for _, line := range q.all() {
		open = open || strings.Contains(fmt.Sprint(line["msg"]), "can be read by everybody")
	}
	if !open {
		t.Error("got no warning of a token that everybody can read")
	}
}

// Calls under way are answered, Envoys and load balancers are told, and the program ends well.
func TestSIGTERMDrainsTheDecisionService(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "headgate.yaml")
	writeFile(t, config, "gateway: { drain_delay: 3s }\ntrusted_proxies: 127.0.0.1\n")
	rules := rulesFile(t, "rules:\n  - { id: slow, when: { path: /slow }, key: [ip], limits: [1/4s], on_limit: delay 60s }\n")
	p := serve(t, "--gateway-addr", "off", "--rules", rules, "--config", config)
	health := grpc_health_v1.NewHealthClient(dialGRPC(t, p.grpc))
	for _, name := range []string{"", "ratelimit", "headgate.v1.RateLimiter"} {
		got, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		if err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: got %v, %v, want SERVING", name, got, err)
		}
	}
	ask := func() string {
		r, err := http.NewRequest(http.MethodGet, "http://"+p.api+"/v1/forward-auth", nil)
		if err != nil {
			return err.Error()
		}
		r.Header.Set("X-Forwarded-Uri", "/slow")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return err.Error()
		}
		_ = response.Body.Close()
		return response.Status
	}
	if got := ask(); got != "200 OK" {
		t.Errorf("got %s, want 200 OK", got)
	}
	held := make(chan string, 1)
	go func() { held <- ask() }() // the server delays it by about four seconds
	await.NoError(t, "a delayed request", func() error {
		if p.metric("headgate_delayed_requests") == 0 {
			return errors.New("no request is delayed")
		}
		return nil
	})
	p.signal(syscall.SIGTERM)
	await.NoError(t, "readyz to turn 503", func() error {
		if code, s := p.status(); code != 503 || s.State != "draining" {
			return fmt.Errorf("got %d %s", code, s.State)
		}
		return nil
	})
	await.NoError(t, "health to turn NOT_SERVING", func() error {
		got, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "ratelimit"})
		if err == nil && got.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
			return fmt.Errorf("got %v, want it not to be serving", got)
		}
		return nil
	})
	if got := <-held; got != "200 OK" {
		t.Errorf("what was held: got %s, want 200 OK", got)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// Some send a signal to a process and to its group. That is one signal, and no reason to be in a hurry.
func TestRepeatedSignalCountsAsOne(t *testing.T) {
	t.Parallel()
	p := serve(t, onFreePort()...)
	p.signal(syscall.SIGTERM)
	p.waitLog("stopping")
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	if code := p.wait(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// Limits for Envoys come from a directory that is watched; what is wrong there leaves those in force.
func TestLimitsForEnvoyAreWatched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(limit string) {
		writeFile(t, filepath.Join(dir, "shop.yaml"), "domain: shop\ndescriptors:\n  - key: tenant\n    rate_limit: { unit: hour, requests_per_unit: "+limit+" }\n")
	}
	write("2")
	p := serve(t, "--gateway-addr", "off", "--envoy-config", dir)
	service := rlspb.NewRateLimitServiceClient(dialGRPC(t, p.grpc))
	ask := func(hits uint32) (*rlspb.RateLimitResponse, error) {
		return service.ShouldRateLimit(t.Context(), &rlspb.RateLimitRequest{
			Domain: "shop", HitsAddend: hits,
			Descriptors: []*rlscommon.RateLimitDescriptor{{Entries: []*rlscommon.RateLimitDescriptor_Entry{{Key: "tenant", Value: "acme"}}}},
		})
	}
	if got, err := ask(3); err != nil || got.GetOverallCode() != rlspb.RateLimitResponse_OVER_LIMIT {
		t.Errorf("got %v, %v, want OVER_LIMIT", got, err)
	}
	write("many")
	p.waitLog("rate limit configuration refused, the previous one stays in use")
	if got, err := ask(1); err != nil || got.GetOverallCode() != rlspb.RateLimitResponse_OVER_LIMIT {
		t.Errorf("got %v, %v, want the limit in force to stay", got, err)
	}
	write("1000")
	await.NoError(t, "the new limit to be in force", func() error {
		got, err := ask(1)
		if err != nil || got.GetOverallCode() != rlspb.RateLimitResponse_OK {
			return fmt.Errorf("got %v: %w", got, err)
		}
		return nil
	})
}

// The document that is served is the one that callers can generate code from.
func TestOpenAPIIsServed(t *testing.T) {
	t.Parallel()
	p := serve(t, "--gateway-addr", "off")
	for flag, addr := range map[string]string{"api-addr": p.api, "admin-addr": p.admin} {
		at := "http://" + addr + "/openapi.json"
		status, body := curl(t, at)
		var doc struct {
			OpenAPI string
			Servers []struct{ URL, Description string }
		}
		if err := json.Unmarshal([]byte(body), &doc); err != nil || status != "200" || doc.OpenAPI != "3.1.0" || len(doc.Servers) != 1 {
			t.Errorf("%s: got %s %q, servers %v, %v, want 3.1.0 and one server", flag, status, doc.OpenAPI, doc.Servers, err)
			continue
		}
		// Its server is this listener, with the address that is the default of the flag.
		document, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		server, err := document.Parse(doc.Servers[0].URL)
		if err != nil {
			t.Fatalf("%s: server %q: %v", flag, doc.Servers[0].URL, err)
		}
		if status, again := curl(t, server.JoinPath("/openapi.json").String()); status != "200" || again != body {
			t.Errorf("%s: server %q: got %s, want the same document", flag, doc.Servers[0].URL, status)
		}
		settings := config.Settings()
		i := slices.IndexFunc(settings, func(s config.Setting) bool { return s.Name == flag })
		if i < 0 || !strings.Contains(doc.Servers[0].Description, settings[i].Default+" by default") {
			t.Errorf("%s: got description %q, want the default of the flag", flag, doc.Servers[0].Description)
		}
	}
}
