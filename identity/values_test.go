package identity

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/headgate/headgate"
)

func TestValuesHaveTheFormOfRequests(t *testing.T) {
	id := newID(t, Config{Region: "eu", Namespace: "shop"})
	var a Attributes
	err := id.ReadValues(Values{
		IP: "[2001:db8:1:2:3::4]:99", User: "alice", APIKey: "k1",
		Attributes: map[string]string{
			"method": "GET", "host": "API.Example.com:443", "path": "/a/../%62//c", "header.X-Plan": "gold", "cookie.s": "1",
			"query.q": "x", "jwt.tenant": "acme", "bearer": "token", "header.Authorization": "Bearer token", "namespace": "other",
			"header.empty": "", "header.long": strings.Repeat("x", 2000),
		},
		Descriptors: []DescriptorEntry{{"remote_address", "192.0.2.1"}, {"generic_key", "a"}, {"generic_key", "b"}},
	}, &a)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"ip": "2001:db8:1:2::/64", "user": "alice", "api_key": "k1", "method": "GET", "host": "api.example.com", "path": "/b/c",
		"segment.1": "b", "segment.2": "c", "segment.3": "-", "header.x-plan": "gold", "header.x-other": "-", "cookie.s": "1", "query.q": "x",
		"jwt.tenant": "acme", "bearer": id.BearerHash("token"), "region": "eu", "namespace": "other", "descriptor.remote_address": "192.0.2.1",
		"descriptor.generic_key": "a", "descriptor.x": "-", "header.empty": "-",
		"header.long":          get(t, id, request("192.0.2.1:1", "/", "Long: "+strings.Repeat("x", 2000)), "header.long"),
		"header.authorization": get(t, id, request("192.0.2.1:1", "/", "Authorization: Bearer token"), "header.authorization"),
	} {
		if got := value(t, &a, name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	if got, want := a.Addr(), netip.MustParseAddr("2001:db8:1:2:3::4"); got != want {
		t.Errorf("Addr() = %v, want %v", got, want)
	}
	if err := a.Validate(); err != nil {
		t.Errorf("Validate() = %v", err)
	}
	if err := id.ReadValues(Values{}, &a); err != nil || value(t, &a, "user") != "-" || value(t, &a, "header.x-plan") != "-" {
		t.Errorf("nothing: %v, and what was given before is still there", err)
	}
}

func TestValuesAreRefusedWithWhatWouldBeRight(t *testing.T) {
	id := newID(t, Config{})
	many := map[string]string{}
	for i := range MaxAttributes + 1 {
		many[fmt.Sprintf("header.x-%d", i)] = "x"
	}
	attributes := func(pairs ...string) Values {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return Values{Attributes: m}
	}
	for _, tt := range []struct {
		values Values
		field  string
	}{
		{Values{IP: "example.com"}, "ip"},
		{Values{IP: "192.0.2.300"}, "ip"},
		{Values{IP: "192.0.2.1, 192.0.2.2"}, "ip"},
		{Values{IP: "192.0.2.1", Attributes: map[string]string{"ip": "192.0.2.2"}}, "ip"},
		{Values{User: "a", Attributes: map[string]string{"user": "b"}}, "user"},
		{Values{APIKey: "k-secret1", Attributes: map[string]string{"api_key": "k-secret2"}}, "api_key"},
		{Values{User: strings.Repeat("x", maxInputBytes+1)}, "user"},
		{Values{User: "ali\nce"}, "user"},
		{Values{APIKey: "k-secret x"}, "api_key"},
		{Values{APIKey: "k-secret\u00a0"}, "api_key"},
		{attributes("bearer", "secret x"), "bearer"},
		{attributes("header.Authorization", "Bearer secret x"), "header.authorization"},
		{attributes("header.X-Plan", "a", "header.x-plan", "b"), "header.x-plan"},
		{attributes("colour", "red"), "attribute"},
		{attributes("host", "a/b"), "host"},
		{attributes("path", "/a/..;/b"), "path"},
		{attributes("path", "/"+strings.Repeat("x", DefaultMaxPath)), "path"},
		{Values{Descriptors: []DescriptorEntry{{"", "x"}}}, "descriptor"},
		{Values{Descriptors: []DescriptorEntry{{strings.Repeat("x", 257), "x"}}}, "descriptor"},
		{Values{Attributes: many}, "attributes"},
	} {
		var a Attributes
		var input *headgate.InputError
		err := id.ReadValues(tt.values, &a)
		if !errors.As(err, &input) || !errors.Is(err, headgate.ErrInvalidCheck) || input.Field != tt.field {
			t.Errorf("%.100v: error %v, want an *InputError about %s", tt.values, err, tt.field)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells a key: %v", err)
		}
		if got := value(t, &a, "user"); got != "-" {
			t.Errorf("%.100v: user = %s after an error, want none", tt.values, got)
		}
	}
	same := Values{IP: "192.0.2.1", User: "a", Attributes: map[string]string{"ip": "::ffff:192.0.2.1", "user": "a"}}
	var a Attributes
	if err := id.ReadValues(same, &a); err != nil {
		t.Errorf("the same twice: %v", err)
	}
}

func TestCallsAreReadLikeRequests(t *testing.T) {
	id := newID(t, Config{TrustedProxies: nets(t, "10.0.0.0/8"), Tokens: tokens, Region: "eu"})
	var a Attributes
	id.ReadCall(&Call{
		Peer: "10.0.0.1:1", Method: "POST", Host: "API.example.com", Path: "/pkg.Search/Query",
		Header: map[string][]string{
			"x-forwarded-for": {"203.0.113.9"}, "authorization": {"Bearer good"}, "x-api-key": {"k1"}, "x-plan": {"gold"},
			"cookie": {"s=1"},
		},
	}, &a)
	for name, want := range map[string]string{
		"ip": "203.0.113.9", "method": "POST", "host": "api.example.com", "path": "/pkg.Search/Query", "segment.2": "Query", "user": "carol",
		"jwt.tenant": "acme", "api_key": "k1", "header.x-plan": "gold", "cookie.s": "1", "query.q": "-", "region": "eu", "descriptor.x": "-",
		"namespace": "-", "bearer": id.BearerHash("good"),
	} {
		if got := value(t, &a, name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	if err := a.Validate(); err != nil {
		t.Errorf("Validate() = %v", err)
	}
}

func TestAttributesForgetTheRequestBefore(t *testing.T) {
	id := newID(t, Config{Tokens: tokens, Hops: 1})
	full := request("10.0.0.1:1", "/a?q=1", "X-Forwarded-For: 203.0.113.9", "Authorization: Bearer good", "X-API-Key: k1", "Cookie: s=1", "X-User-ID: alice", "X-Plan: gold")
	empty := request("@", "/")
	empty.Host = ""
	names := []string{"ip", "user", "api_key", "bearer", "host", "segment.1", "header.x-plan", "cookie.s", "query.q", "jwt.tenant"}
	var a Attributes
	for range 2 {
		id.Read(full, &a)
		for _, name := range names {
			if value(t, &a, name) == "-" {
				t.Errorf("%s is missing", name)
			}
		}
		id.Read(empty, &a)
		for _, name := range names {
			if got := value(t, &a, name); got != "-" {
				t.Errorf("%s = %s, which is that of the request before", name, got)
			}
		}
	}
}
