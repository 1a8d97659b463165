package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/token"
)

// With all_namespaces, a call about the state of nodes is about the namespaces of its token, and no others.
func TestStateOfAllNamespacesIsThatOfTheToken(t *testing.T) {
	now := newClock()
	s := open(t, api.Config{Now: now.time})
	for _, namespace := range []string{"default", "shop", "blog"} {
		server := control.ServerStats{
			Shard: "redis:1", Server: "redis:1", Role: control.RolePrimary, Up: true, Checked: now.time().UTC(),
		}
		n := control.Node{ID: "eu-1", Namespace: namespace, Store: "ok", Health: &control.HealthStats{
			FailingOpen: []control.RuleRate{{Rule: "of-" + namespace, PerSecond: 7}}, UnlimitedPerSecond: 7,
			OpenShards: []string{"redis:1"}, Servers: []control.ServerStats{server},
		}, EnforcementOff: []control.Suspension{{Rule: "of-" + namespace, Expires: now.time().Add(time.Hour)}}}
		if _, err := s.server.Heartbeat(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	marks := map[string]func(namespace string) string{
		"/v1/nodes":       func(namespace string) string { return `"id":"eu-1","namespace":"` + namespace + `"` },
		"/v1/alerts":      func(namespace string) string { return `{"namespace":"` + namespace + `","unlimited_per_second":7` },
		"/v1/enforcement": func(namespace string) string { return `"namespace":"` + namespace + `","node":"eu-1"` },
		"/v1/stores": func(namespace string) string {
			if namespace == "default" {
				return `"eu-1"`
			}
			return `"` + namespace + `/eu-1"`
		},
	}
	for _, tt := range []struct {
		token []string
		query string
		want  string
	}{
		{[]string{"*"}, "", "default"},
		{[]string{"*"}, "?all_namespaces=false", "default"},
		{[]string{"*"}, "?all_namespaces=true", "blog default shop"},
		{[]string{"default"}, "?all_namespaces=true", "default"},
		{[]string{"shop", "default"}, "?all_namespaces", "default shop"},
	} {
		secret := s.token("looker", token.Viewer, tt.token...)
		for path, mark := range marks {
			got := s.as(secret, "GET", path+tt.query, "").wants(http.StatusOK)
			var found []string
			for _, namespace := range []string{"blog", "default", "shop"} {
				if strings.Contains(got.body, mark(namespace)) {
					found = append(found, namespace)
				}
			}
			if text := strings.Join(found, " "); text != tt.want {
				t.Errorf("token of %v, %s%s: got %s, want %s: %s", tt.token, path, tt.query, text, tt.want, got.body)
			}
		}
		s.call("DELETE", "/v1/tokens/looker", "").wants(http.StatusOK)
	}
	shop := s.token("shop", token.Viewer, "shop")
	node := s.token("node", token.Node, "*")
	for path := range marks {
		s.as(shop, "GET", path+"?all_namespaces", "").wants(http.StatusForbidden, "the namespace default")
		s.as(node, "GET", path+"?all_namespaces", "").wants(http.StatusForbidden)
		s.as("", "GET", path+"?all_namespaces", "").wants(http.StatusUnauthorized)
		s.call("GET", path+"?all_namespaces=maybe", "").wants(http.StatusBadRequest)
	}
	s.call("GET", "/v1/stores?all_namespaces", "").wants(http.StatusOK, `"open_on":["blog/eu-1","eu-1","shop/eu-1"]`)
	s.call("GET", "/v1/alerts?all_namespaces&state=firing", "").wants(http.StatusOK, `"alerts":[]`)
}
