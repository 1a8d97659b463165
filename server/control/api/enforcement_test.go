package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/token"
)

func TestEnforcementIsOffForATime(t *testing.T) {
	c := newClock()
	s := open(t, api.Config{Now: c.time})
	s.call("POST", "/v1/rules", `{"id":"search","limits":["10/s"]}`).wants(201)
	s.call("GET", "/v1/enforcement", "").wants(200, `{"off":[]}`)
	s.call("POST", "/v1/enforcement:off?note=why", `{"rule":"search","for":"30m"}`).
		wants(200, `"rule":"search"`, `"note":"why"`, `"namespace":"default"`)
	s.call("POST", "/v1/enforcement:on", `{"rule":"search"}`).wants(200, `{"off":[]}`)
	s.call("POST", "/v1/enforcement:on", `{"rule":"search"}`).wants(200, `{"off":[]}`)

	s.call("POST", "/v1/enforcement:off", `{"for":"1h","all_namespaces":true}`).wants(200, `"namespace":"default"`)
	s.call("POST", "/v1/enforcement:on", `{"rule":"search"}`).wants(http.StatusConflict, "Turn on the enforcement of all")
	c.add(time.Hour)
	s.call("GET", "/v1/enforcement?all_namespaces", "").wants(200, `{"off":[]}`)
}

// A switch made on one node is in the heartbeats of that node, and the rules service shows it with the others.
func TestEnforcementShowsSwitchesOfSingleNodes(t *testing.T) {
	c := newClock()
	s := open(t, api.Config{Now: c.time})
	s.call("POST", "/v1/rules", `{"id":"search","limits":["10/s"]}`).wants(201)
	until := c.time().Add(30 * time.Minute).UTC().Format(time.RFC3339)
	beat := func(off string) {
		t.Helper()
		s.call("PUT", "/v1/nodes/eu-2", `{"version":"1","store":"ok","enforcement_off":[`+off+`]}`).wants(200)
	}
	beat("")
	s.call("GET", "/v1/enforcement", "").wants(200, `{"off":[]}`)
	beat(`{"rule":"search","since":"2026-01-01T00:00:00Z","expires":"` + until + `","by":"bootstrap","note":"why"}`)
	s.call("GET", "/v1/enforcement", "").
		wants(200, `"rule":"search"`, `"scope":"node"`, `"node":"eu-2"`, `"expires":"`+until+`"`, `"namespace":"default"`, `"note":"why"`)
	s.call("GET", "/v1/enforcement?all_namespaces", "").wants(200, `"node":"eu-2"`)
	s.call("GET", "/v1/nodes", "").wants(200, `"enforcement_off":[{"rule":"search"`)
	s.call("PUT", "/v1/nodes/eu-3", `{"version":"1","store":"ok"}`).wants(200) // as nodes of v0.1.0 do
	s.call("PUT", "/v1/nodes/eu-3", `{"version":"1","store":"ok","enforcement_off":[{"note":"`+strings.Repeat("x", 5000)+`"}]}`).
		wants(422, `"path":"enforcement_off[0].note"`)
	c.add(31 * time.Minute)
	s.call("GET", "/v1/enforcement", "").wants(200, `{"off":[]}`)
}

func TestEnforcementRefusesInvalidRequests(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/rules", `{"id":"search","limits":["10/s"]}`).wants(201)
	s.call("POST", "/v1/enforcement:off", `{"rule":"none","for":"30m"}`).wants(http.StatusNotFound)
	for _, body := range []string{
		`{}`, `{"for":"0s"}`, `{"for":"169h"}`, `{"for":"soon"}`, `{"rule":"search","all_namespaces":true,"for":"1m"}`,
	} {
		s.call("POST", "/v1/enforcement:off", body).wants(http.StatusUnprocessableEntity)
	}
	s.call("POST", "/v1/enforcement:on", `{"for":"1m"}`).wants(http.StatusUnprocessableEntity)
	one := s.token("one", token.Editor, "default")
	s.as(one, "POST", "/v1/enforcement:off", `{"for":"1m","all_namespaces":true}`).wants(http.StatusForbidden)
}
