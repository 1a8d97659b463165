package api_test

import (
	"net/http"
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
