package deploycheck

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	gateway "github.com/envoyproxy/gateway/api/v1alpha1"
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3" // HttpProtocolOptions, for Any
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	api "istio.io/api/networking/v1alpha3"
	istio "istio.io/client-go/pkg/apis/networking/v1alpha3"
)

// A validated message checks its own values, beyond the types of fields.
type validated interface {
	proto.Message
	ValidateAll() error
}

// parse reads a message strictly and checks its values.
func parse(data []byte, m validated) error {
	return errors.Join(protojson.Unmarshal(data, m), m.ValidateAll())
}

// checkFilter checks the rate limit filter: it fails open after a short time.
func checkFilter(t *testing.T, data []byte) {
	t.Helper()
	var f hcm.HttpFilter
	if err := parse(data, &f); err != nil {
		t.Fatal(err)
	}
	var limit ratelimit.RateLimit
	if err := f.GetTypedConfig().UnmarshalTo(&limit); err != nil {
		t.Fatal(err)
	}
	if err := limit.ValidateAll(); err != nil {
		t.Error(err)
	}
	timeout := limit.GetTimeout().AsDuration()
	if limit.GetFailureModeDeny() || timeout <= 0 || timeout > 50*time.Millisecond {
		t.Errorf("got failure_mode_deny %t and timeout %v, want to fail open within 50 ms", limit.GetFailureModeDeny(), timeout)
	}
}

func TestIstioFiltersAreValid(t *testing.T) {
	objects, err := decode(readFile(t, "istio/ratelimit.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	patches := 0
	for _, f := range of[*istio.EnvoyFilter](objects) {
		for _, p := range f.Spec.ConfigPatches {
			patches++
			value, err := protojson.Marshal(p.Patch.Value)
			if err != nil {
				t.Fatal(err)
			}
			switch p.ApplyTo {
			case api.EnvoyFilter_HTTP_FILTER:
				checkFilter(t, value)
			case api.EnvoyFilter_VIRTUAL_HOST:
				var host route.VirtualHost
				if err := protojson.Unmarshal(value, &host); err != nil { // a patch, so it lacks required fields
					t.Error(err)
				}
				checkLimits(t, host.GetRateLimits())
			default:
				t.Errorf("patch of %v is not checked", p.ApplyTo)
			}
		}
	}
	if patches != 2 {
		t.Errorf("got %d patches, want 2", patches)
	}
}

func checkLimits(t *testing.T, limits []*route.RateLimit) {
	t.Helper()
	if len(limits) == 0 {
		t.Error("no rate limits")
	}
	for _, l := range limits {
		if err := l.ValidateAll(); err != nil {
			t.Error(err)
		}
	}
}

func TestEnvoyGatewayPatchesAreValid(t *testing.T) {
	objects, err := decode(readFile(t, "envoy-gateway/ratelimit.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	policies := of[*gateway.EnvoyPatchPolicy](objects)
	if len(policies) != 1 {
		t.Fatalf("got %d policies, want 1", len(policies))
	}
	var clusters []string
	for _, p := range policies[0].Spec.JSONPatches {
		value := p.Operation.Value.Raw
		switch p.Type {
		case gateway.ListenerEnvoyResourceType:
			checkFilter(t, value)
		case gateway.RouteConfigurationEnvoyResourceType:
			var host route.VirtualHost
			value = slices.Concat([]byte(`{"rate_limits":`), value, []byte("}"))
			if err := protojson.Unmarshal(value, &host); err != nil {
				t.Fatal(err)
			}
			checkLimits(t, host.GetRateLimits())
		case gateway.ClusterEnvoyResourceType:
			var c cluster.Cluster
			if err := parse(value, &c); err != nil {
				t.Fatal(err)
			}
			clusters = append(clusters, c.GetName())
		default:
			t.Errorf("patch of %s is not checked", p.Type)
		}
	}
	if got, _ := json.Marshal(clusters); string(got) != `["headgate"]` {
		t.Errorf("got clusters %s, want the one that the filter names", got)
	}
}
