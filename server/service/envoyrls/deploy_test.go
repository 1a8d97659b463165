package envoyrls_test

import (
	"os"
	"testing"
	"time"

	bootstrappb "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	filterpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	managerpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/service/envoyrls"
)

const deployed = "../../../deploy/envoy/"

// Envoy's messages can hold the configuration under deploy, and its descriptors have limits in the file beside it.
func TestShippedEnvoyConfiguration(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(deployed + "envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var bootstrap bootstrappb.Bootstrap
	if err := protojson.Unmarshal(data, &bootstrap); err != nil { // unknown fields and types are errors
		t.Fatal(err)
	}
	if err := bootstrap.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	var manager managerpb.HttpConnectionManager
	if err := bootstrap.StaticResources.Listeners[0].FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(&manager); err != nil {
		t.Fatal(err)
	}
	var filter filterpb.RateLimit
	if err := manager.HttpFilters[0].GetTypedConfig().UnmarshalTo(&filter); err != nil {
		t.Fatal(err)
	}
	if err := manager.ValidateAll(); err != nil {
		t.Error(err)
	}
	if err := filter.ValidateAll(); err != nil {
		t.Error(err)
	}
	clusters := map[string]string{}
	for _, c := range bootstrap.StaticResources.Clusters {
		clusters[c.Name] = ""
		for _, check := range c.HealthChecks {
			clusters[c.Name] = check.GetGrpcHealthCheck().GetServiceName()
		}
	}
	asked := filter.RateLimitService.GrpcService.GetEnvoyGrpc().GetClusterName()
	if got, there := clusters[asked]; !there || got != envoyrls.HealthName {
		t.Errorf("the filter asks %q whose health is %q, want a cluster with that of %q", asked, got, envoyrls.HealthName)
	}

	now := func() time.Time { return begin }
	client := dial(t, newServer(t, envoyrls.Config{
		Path: deployed + "limits", CountDenied: true, Now: now, Store: newStore(t, memstore.Options{MaxBytes: 8 << 20, Now: now}),
	}))
	for _, c := range []struct{ path, want string }{
		{"/", "OK: OK 599 of 600/MINUTE in 60s | OK 999 of 1000/MINUTE in 90s | OK"},
		{"/login", "OK: OK 598 of 600/MINUTE in 60s | OK 998 of 1000/MINUTE in 105s | OK 4 of 5/MINUTE in 60s"},
	} {
		r := &rlspb.RateLimitRequest{Domain: filter.Domain}
		for _, limit := range manager.GetRouteConfig().VirtualHosts[0].RateLimits {
			r.Descriptors = append(r.Descriptors, descriptorOf(t, limit, map[string]string{":path": c.path, "x-api-key": "secret"}))
		}
		answer, err := client.ShouldRateLimit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if got := answerText(answer); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.path, got, c.want)
		}
	}
}

// descriptorOf returns the descriptor that Envoy builds for a request by the actions of a route.
func descriptorOf(t *testing.T, limit *routepb.RateLimit, header map[string]string) *ratelimitpb.RateLimitDescriptor {
	t.Helper()
	d := &ratelimitpb.RateLimitDescriptor{}
	for _, action := range limit.Actions {
		e := &ratelimitpb.RateLimitDescriptor_Entry{}
		switch a := action.ActionSpecifier.(type) {
		case *routepb.RateLimit_Action_RemoteAddress_:
			e.Key, e.Value = "remote_address", "203.0.113.7"
		case *routepb.RateLimit_Action_RequestHeaders_:
			e.Key, e.Value = a.RequestHeaders.DescriptorKey, header[a.RequestHeaders.HeaderName]
		default:
			t.Fatalf("an action that this test does not know: %v", action)
		}
		d.Entries = append(d.Entries, e)
	}
	return d
}
