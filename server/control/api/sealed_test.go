package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/control/token"
)

func identifier(t *testing.T, secret string) *identity.Identifier {
	t.Helper()
	id, err := identity.New(identity.Config{Secret: []byte(secret)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// The holder of a node token can register a node, but gets no keys that operators look up.
func TestNodesGetKeysEncrypted(t *testing.T) {
	const text, fleet = "rules: [{ id: per-key, key: api_key, limits: 10/h }]", "the secret of the fleet"
	var mu sync.Mutex
	var sent []string
	start := func(s *service, id string, answer http.Handler, key string) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			sent = append(sent, string(body))
			mu.Unlock()
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			answer.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		bearer := s.token("token-"+id, token.Node, "default")
		s.as(bearer, "PUT", "/v1/nodes/"+id, fmt.Sprintf(`{"address":%q,"ask_key":%q}`, server.URL, key)).wants(200)
	}
	s := open(t, api.Config{Identifier: identifier(t, fleet)})
	good := nodequery.NewResponder(engineOf(t, text), "default", identifier(t, fleet), nil)
	other := nodequery.NewResponder(engineOf(t, text), "default", identifier(t, "another secret of another fleet"), nil)
	start(s, "good", good, good.Key())
	start(s, "other", other, other.Key())
	for _, attribute := range []string{
		"api_key=LOOKED-UP", "bearer=LOOKED-UP", "cookie.s=LOOKED-UP", "header.x=LOOKED-UP", "query.q=LOOKED-UP",
		"user=LOOKED-UP", "path=/LOOKED-UP", "jwt.email=LOOKED-UP", "descriptor.api_key=LOOKED-UP", "segment.2=LOOKED-UP",
	} {
		got := s.call("GET", "/v1/keys?"+attribute, "").wants(200, `"id":"good"`, `"state":"answered"`, "a different --key-secret-file")
		if has := strings.Contains(got.body, `"id":"per-key"`); has != strings.HasPrefix(attribute, "api_key") {
			t.Errorf("%s: got %s, want what the key has left, and no other", attribute, got.body)
		}
	}
	s.call("POST", "/v1/keys:reset", `{"attributes":{"api_key":"LOOKED-UP"}}`).wants(200, `"reset":["per-key"]`)
	mu.Lock()
	defer mu.Unlock()
	if len(sent) < 22 {
		t.Errorf("nodes were asked %d times, want 22", len(sent))
	}
	for _, body := range sent {
		if strings.Contains(body, "LOOKED-UP") {
			t.Errorf("a node was sent %s, want no key in the clear", body)
		}
	}
}

func TestKeysAreNotSentWithoutASecretOfTheFleet(t *testing.T) {
	s := open(t, api.Config{})
	a := newFarNode(t, "a", perUserHour, memory(t), false)
	a.beat(s, "")
	for _, attribute := range []string{"api_key", "descriptor.x-api-key", "jwt.session_id"} {
		s.call("GET", "/v1/keys?"+attribute+"=k", "").wants(http.StatusBadGateway, "--key-secret-file")
	}
	if got := a.asked.Load(); got != 0 {
		t.Errorf("the node was asked %d times, want none", got)
	}
	s.call("GET", "/v1/keys?user=bob", "").wants(200, `"id":"per-user"`)
}
