package identity

import (
	"strings"
	"testing"
)

func TestCanonicalHost(t *testing.T) {
	for sent, want := range map[string]string{ // "!" is malformed
		"example.com":            "example.com",
		"API.Example.COM":        "api.example.com",
		"example.com:8080":       "example.com",
		"example.com.":           "example.com",
		"Example.com.:443":       "example.com",
		"example.com:":           "example.com", // RFC 3986 lets a port be empty
		"localhost":              "localhost",
		"a_b.example":            "a_b.example",
		"xn--bcher-kva.example":  "xn--bcher-kva.example",
		"192.0.2.1:80":           "192.0.2.1",
		"[2001:DB8::1]:80":       "2001:db8::1",
		"[::1]":                  "::1",
		"[::1]:":                 "::1",
		"":                       "!",
		".":                      "!",
		"..":                     "!",
		"a..b":                   "!",
		".a":                     "!",
		"a..":                    "!",
		":80":                    "!",
		"a:80:80":                "!",
		"a:x":                    "!",
		"a:65536":                "!",
		"a:000080":               "!",
		"a b":                    "!",
		"a/b":                    "!",
		"a@b":                    "!",
		"user@example.com":       "!",
		"a,b":                    "!",
		"a%2Eb":                  "!",
		"bücher.example":         "!",
		"a\x00b":                 "!",
		"[::1":                   "!",
		"[::1]x":                 "!",
		"[::1%25eth0]":           "!",
		"[fe80::1%eth0]":         "!",
		"[192.0.2.1]":            "!",
		"[example.com]":          "!",
		"::1":                    "!",
		"http://example.com":     "!",
		strings.Repeat("a", 254): "!",
		strings.Repeat("a", 253): strings.Repeat("a", 253),
		"example.com#":           "!",
		"example.com?x":          "!",
		"*":                      "!",
	} {
		got, err := CanonicalHost(sent)
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", sent, got, err, want)
		}
	}
}

func TestHostOfARequest(t *testing.T) {
	id := newID(t, Config{})
	r := request("192.0.2.1:1", "/", "Host: API.example.com:8443", "X-Forwarded-Host: evil.example")
	for _, name := range []string{"host", "header.host"} {
		if got := get(t, id, r, name); got != "api.example.com" {
			t.Errorf("%s = %s, want api.example.com", name, got)
		}
	}
	r = request("192.0.2.1:1", "/", "Host: a/../b")
	if got, bad := get(t, id, r, "host"), part(t, id, r); got != "-" || bad != "host" {
		t.Errorf("host = %s, malformed %q, want none and host", got, bad)
	}
	r.Host = "" // HTTP/1.0
	if got, bad := get(t, id, r, "host"), part(t, id, r); got != "-" || bad != "" {
		t.Errorf("host = %s, malformed %q, want none and nothing", got, bad)
	}
}
