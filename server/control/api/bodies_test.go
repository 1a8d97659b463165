package api_test

import (
	"testing"

	"github.com/headgate/headgate/server/control/api"
)

func TestPutRequiresTheIDOfItsPath(t *testing.T) {
	s := open(t, api.Config{})
	s.call("PUT", "/v1/rules/search", `{"key":["user"],"limits":["10/s"]}`).wants(201, `"id":"search"`)
	s.call("PUT", "/v1/clients/acme", "limits: 20/s", "Content-Type", "application/yaml").wants(201, `"id":"acme"`)
	s.call("PUT", "/v1/rules/search", `{"id":"other","limits":["10/s"]}`).wants(422, `"path":"id"`)
	s.call("PUT", "/v1/rules/a%2Fb", `{"limits":["10/s"]}`).wants(422, `"path":"id"`)
	// If the path has no ID, the body needs one.
	s.call("POST", "/v1/rules", `{"limits":["10/s"]}`).wants(422, `"path":"id"`)
}

func TestUnknownFieldsAreRefusedWithTheKnownOnes(t *testing.T) {
	s := open(t, api.Config{Node: engineOf(t, explained)})
	for _, tt := range [][4]string{
		{"/v1/keys:reset", "{\"attributes\":{\"user\":\"bob\"},\n\"rle\":\"search\",\"unheard-of\":1}", "rule", "attributes or rule"},
		{"/v1/tokens", "{\"role\":\"viewer\",\n\"rle\":1,\"unheard-of\":1}", "role", "id, role, namespaces"},
		{"/v1/webhooks", "{\"id\":\"a\",\n\"rle\":1,\"unheard-of\":1}", "url", "id, url, description, secret or events"},
		{"/v1/explain", "{\"cost\":1,\n\"rle\":1,\"unheard-of\":1}", "rule", "attributes, request, rule"},
	} {
		s.call("POST", tt[0], tt[1]).wants(422, `"path":"rle","value":"unknown field","want":"`+tt[2],
			`"path":"unheard-of","value":"unknown field","want":"`+tt[3], `"line":2`)
	}
}

func TestNonTextValuesAreRefusedWithTheirPaths(t *testing.T) {
	s := open(t, api.Config{Node: engineOf(t, explained)})
	for _, bad := range []string{`1`, `true`, `["a"]`, `{"a":"b"}`} {
		s.call("POST", "/v1/explain", `{"attributes":{"ip":"192.0.2.1","user":`+bad+`}}`).wants(422, `"path":"attributes.user"`, `"want":"a string"`)
		s.call("POST", "/v1/keys:reset", `{"attributes":{"user":`+bad+`}}`).wants(422, `"path":"attributes.user"`)
		s.call("POST", "/v1/explain", `{"request":{"url":"/x","headers":{"X-A":`+bad+`}}}`).wants(422, `"path":"request.headers.X-A"`)
	}
	s.call("POST", "/v1/explain", `{"attributes":[]}`).wants(422, `"path":"attributes"`)
}

func TestInvalidTimesAreRefusedWithTheirPath(t *testing.T) {
	s := open(t, api.Config{})
	for _, bad := range []string{`"yesterday"`, `1`, `{}`, `[]`, `true`, `""`, `"2027-01-31"`} {
		s.call("POST", "/v1/tokens", `{"role":"viewer","namespaces":["*"],"expires":`+bad+`}`).wants(422, `"path":"expires"`, "a time as in")
	}
	s.call("POST", "/v1/tokens", `{"role":"viewer","namespaces":["*"],"expires":null}`).wants(201)
}
