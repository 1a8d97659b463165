package api_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/token"
)

// startedAt is the parameter that identifies a stopping node.
func startedAt(at string) string { return "?started=" + url.QueryEscape(at) }

const (
	firstStart  = "2027-01-31T18:00:00.123456789Z"
	secondStart = "2027-01-31T18:00:01Z"
)

func TestStoppedNodeIsNotListed(t *testing.T) {
	s := open(t, api.Config{})
	bearer := s.token("node", token.Node, "default")
	beat := func(started string) {
		t.Helper()
		s.as(bearer, "PUT", "/v1/nodes/n1", `{"store":"ok","started":"`+started+`"}`).wants(200)
	}
	beat(firstStart)
	s.call("GET", "/v1/nodes", "").wants(200, `"id":"n1"`, `"by":"node"`)
	s.as(bearer, "DELETE", "/v1/nodes/n1"+startedAt(firstStart), "").wants(204)
	s.call("GET", "/v1/nodes", "").wants(200, `"nodes":[]`)
	s.as(bearer, "DELETE", "/v1/nodes/n1"+startedAt(firstStart), "").wants(404)
	// A restarted node is listed at once, and a late message of the process before does not remove it.
	beat(firstStart)
	beat(secondStart)
	s.as(bearer, "DELETE", "/v1/nodes/n1"+startedAt(firstStart), "").wants(412, secondStart)
	s.call("GET", "/v1/nodes", "").wants(200, `"id":"n1"`)
	s.as(bearer, "DELETE", "/v1/nodes/n1"+startedAt(secondStart), "").wants(204)
	// It is not in the history.
	s.call("GET", "/v1/audit?kind=event", "").wants(200, `"audit":[]`)
}

func TestNodeRemovesOnlyItself(t *testing.T) {
	s := open(t, api.Config{})
	mine, other := s.token("mine", token.Node, "default"), s.token("other", token.Node, "*")
	s.as(mine, "PUT", "/v1/nodes/n1", `{"started":"`+firstStart+`"}`).wants(200)
	s.as(other, "DELETE", "/v1/nodes/n1"+startedAt(firstStart), "").wants(403, "with a token other than other")
	s.as(other, "DELETE", "/v1/nodes/n1"+strings.Replace(startedAt(firstStart), "?", "?namespace=shop&", 1), "").wants(404)
	s.as(mine, "DELETE", "/v1/nodes/n1", "").wants(400, `"path":"?started"`)
	s.as(mine, "DELETE", "/v1/nodes/n1?started=now", "").wants(400, `"path":"?started"`)
	for _, id := range []string{"n2", "a%2Fb", "%27%20OR%201=1", strings.Repeat("x", 5000)} {
		s.as(mine, "DELETE", "/v1/nodes/"+id+startedAt(firstStart), "").wants(404)
	}
	s.as(s.token("viewer", token.Viewer, "*"), "DELETE", "/v1/nodes/n1", "").wants(403)
	s.call("GET", "/v1/nodes", "").wants(200, `"id":"n1"`)
	// A node has the token that registered it, until that one is revoked.
	s.as(other, "PUT", "/v1/nodes/n1", `{"started":"`+firstStart+`"}`).wants(403, "registered with a token other than other")
	s.as(mine, "PUT", "/v1/nodes/n1", `{"started":"`+firstStart+`"}`).wants(200)
	s.call("DELETE", "/v1/tokens/mine", "").wants(200)
	s.as(other, "PUT", "/v1/nodes/n1", `{"started":"`+firstStart+`"}`).wants(200)
	s.as(other, "DELETE", "/v1/nodes/n1"+startedAt(firstStart), "").wants(204)
}

func TestDeletedNodeReturnsWithItsNextHeartbeat(t *testing.T) {
	s := open(t, api.Config{})
	bearer := s.token("node", token.Node, "default")
	beat := `{"store":"ok","started":"` + firstStart + `"}`
	s.as(bearer, "PUT", "/v1/nodes/n1", beat).wants(200)
	s.as(s.token("editor", token.Editor, "default"), "DELETE", "/v1/nodes/n1", "").wants(204)
	s.call("GET", "/v1/nodes", "").wants(200, `"nodes":[]`)
	s.eventOf(s.admin, "", "nodes.delete").wants(200, `"actor":"editor"`, `"node":"n1"`)
	s.as(bearer, "PUT", "/v1/nodes/n1", beat).wants(200)
	s.call("GET", "/v1/nodes", "").wants(200, `"id":"n1"`)
	s.call("DELETE", "/v1/nodes/n1"+startedAt(secondStart), "").wants(412)
	s.call("DELETE", "/v1/nodes/n1", "").wants(204)
	s.call("DELETE", "/v1/nodes/n1", "").wants(404)
}

// With several instances, the one that gets the stop may not be the one that gets the heartbeats.
func TestStoppedNodeIsNotListedByOtherInstances(t *testing.T) {
	now := newClock()
	s := open(t, api.Config{Now: now.time})
	other := open(t, api.Config{DB: s.db, Now: now.time})
	bearer := s.token("node", token.Node, "default")
	beat := `{"store":"ok","started":"` + firstStart + `"}`
	s.as(bearer, "PUT", "/v1/nodes/n1", beat).wants(200)
	other.as(bearer, "DELETE", "/v1/nodes/n1"+startedAt(firstStart), "").wants(204)
	s.call("GET", "/v1/nodes", "").wants(200, `"nodes":[]`)
	// If the node is still running, the other instances list it again within a minute.
	now.add(61 * time.Second)
	s.as(bearer, "PUT", "/v1/nodes/n1", beat).wants(200)
	s.call("GET", "/v1/nodes", "").wants(200, `"id":"n1"`)
}

func TestLocalNodeLeaves(t *testing.T) {
	s := open(t, api.Config{})
	n := control.Node{ID: "here", Namespace: "default", Store: "ok", Started: time.Now()}
	if _, err := s.server.Heartbeat(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	before := n
	before.Started = before.Started.Add(-time.Hour)
	if err := s.server.Leave(t.Context(), before); err != nil {
		t.Error(err)
	}
	s.call("GET", "/v1/nodes", "").wants(200, `"id":"here"`)
	if err := s.server.Leave(t.Context(), n); err != nil {
		t.Error(err)
	}
	s.call("GET", "/v1/nodes", "").wants(200, `"nodes":[]`)
	if err := s.server.Leave(t.Context(), n); err != nil {
		t.Errorf("one that is gone: got %v", err)
	}
}

// A token cannot send heartbeats of the node in the rules service's own process, which has no token.
func TestTokenCannotImpersonateTheLocalNode(t *testing.T) {
	s := open(t, api.Config{})
	if _, err := s.server.Heartbeat(t.Context(), control.Node{ID: "own", Namespace: "default", Version: "1"}); err != nil {
		t.Fatal(err)
	}
	s.as(s.token("node", token.Node, "default"), "PUT", "/v1/nodes/own", `{"version":"evil"}`).wants(403)
	s.call("GET", "/v1/nodes", "").wants(200, `"version":"1"`)
}
