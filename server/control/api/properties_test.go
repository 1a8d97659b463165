package api_test

import (
	"testing"

	"github.com/headgate/headgate/server/control/api"
)

func TestClientHasProperties(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/rules", `{"id":"search","key":["user"],"limits":["10/s"],"overrides":[{"when":{"client.plan":"gold"},"limits":["500/s"]}]}`).wants(201)
	s.call("POST", "/v1/clients", `{"id":"acme","attributes":{"plan":"gold","seats":12,"beta":true}}`).
		wants(201, `"attributes":{"beta":"true","plan":"gold","seats":"12"}`)
	// Other clients may have the same property, and the user acme is still this client.
	s.call("POST", "/v1/clients", `{"id":"other","attributes":{"plan":"gold","api_key":"k1"}}`).wants(201, `"attributes":{"api_key":"k1","plan":"gold"}`)
	s.call("POST", "/v1/clients", `{"id":"third","attributes":{"user":"acme"}}`).wants(422, `identifies \"acme\"`)
	s.call("PATCH", "/v1/clients/acme", `{"attributes":{"plan":"silver","seats":null}}`).wants(200, `"attributes":{"beta":"true","plan":"silver"}`)
	s.call("PUT", "/v1/clients/acme", `{"id":"acme","attributes":{"plan":"gold"}}`).wants(200, `"attributes":{"plan":"gold"}`)
	s.call("GET", "/v1/clients/acme", "").wants(200, `"attributes":{"plan":"gold"}`)
	s.call("GET", "/v1/clients?q=gold", "").wants(200, `"total":2`)
	s.call("POST", "/v1/clients:import", "{\"id\":\"a\",\"attributes\":{\"plan\":\"gold\"}}\n{\"id\":\"b\",\"attributes\":{\"plan\":\"gold\",\"user\":\"u\"}}\n", ndjson...).
		wants(200, `"created":2`)
	s.call("POST", "/v1/rules:apply", "clients: [{ id: c, attributes: { plan: gold } }]", "Content-Type", "application/yaml").wants(200)
	s.call("GET", "/v1/clients/c", "").wants(200, `"attributes":{"plan":"gold"}`)
}

func TestInvalidPropertiesAreRefusedWithTheirPath(t *testing.T) {
	s := open(t, api.Config{})
	for body, want := range map[string][]string{
		`{"id":"a","attributes":{"usr":"acme"}}`:                     {`"path":"attributes.usr"`, "want", "user, or another name for a property"},
		`{"id":"a","attributes":{"plan":["gold"]}}`:                  {`"path":"attributes.plan"`, "one value"},
		`{"id":"a","attributes":{"plan":""}}`:                        {`"path":"attributes.plan"`, "no plan at all"},
		`{"id":"a","attributes":{"client.plan":"gold"}}`:             {`"path":"attributes.client.plan"`, "plan without client."},
		`{"id":"a","attributes":{"plan":"gold","api-key":"secret"}}`: {`"path":"attributes.api-key"`, "api_key, or another name"},
	} {
		s.call("POST", "/v1/clients", body).wants(422, want...)
	}
	s.call("POST", "/v1/clients:import", "{\"id\":\"a\"}\n{\"id\":\"b\",\"attributes\":{\"Ip\":\"x\"}}\n", ndjson...).wants(422, `"line":2`, "ip, or another name")
	s.call("POST", "/v1/rules", `{"id":"a","key":["client.plan"],"limits":["1/s"]}`).wants(422, `"path":"key[0]"`, "one counter together")
	s.call("POST", "/v1/overrides", `{"client":{"client.plan":"gold"},"limits":["1/s"],"for":"1h"}`).wants(422, "request attribute")
	s.call("GET", "/v1/clients", "").wants(200, `"total":0`)
}

func TestExplainShowsUsedProperties(t *testing.T) {
	e := engineOf(t, `
rules:
  - { id: search, key: user, limits: 3/h, overrides: [{ when: { client.plan: gold }, limits: 7/h }] }
  - { id: trial, when: { client.plan: trial }, key: ip, limits: 1/h }
clients:
  - { id: acme, attributes: { plan: gold, seats: 12 } }
  - { id: t, attributes: { api_key: k, plan: trial } }
`)
	s := open(t, api.Config{Node: e})
	s.call("POST", "/v1/explain", `{"attributes":{"user":"acme","ip":"192.0.2.9"}}`).
		wants(200, `"client":"acme"`, `"override":0`, `"capacity":7`, `"properties":{"plan":"gold"}`)
	s.call("POST", "/v1/explain", `{"attributes":{"user":"acme","api_key":"k","ip":"192.0.2.9"}}`).
		wants(200, `"properties":{"plan":"trial"}`, `"id":"trial"`, `"client":"acme","properties":{"plan":"gold"}`)
	s.call("POST", "/v1/explain", `{"attributes":{"user":"acme","client.plan":"gold"}}`).wants(422, `"path":"attributes.client.plan"`)
}
