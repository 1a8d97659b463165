package identity

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/headgate/headgate"
)

const testSecret = "a secret that only tests know..."

func newID(t testing.TB, c Config) *Identifier {
	t.Helper()
	if c.Secret == nil {
		c.Secret = []byte(testSecret)
	}
	id, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func nets(t testing.TB, text string) []netip.Prefix {
	t.Helper()
	n, err := ParseNetworks(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// request returns one with header lines such as "X-Forwarded-For: 1.2.3.4", as a server has it.
func request(remote, target string, lines ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	r.RemoteAddr = remote
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		if strings.EqualFold(name, "Host") {
			r.Host = strings.TrimSpace(value)
			continue
		}
		r.Header.Add(name, strings.TrimSpace(value))
	}
	return r
}

func attr(t testing.TB, name string) headgate.Attribute {
	t.Helper()
	a, err := headgate.ParseAttribute(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// get returns an attribute of a request, "-" if it is missing.
func get(t testing.TB, id *Identifier, r *http.Request, name string) string {
	t.Helper()
	var a Attributes
	id.Read(r, &a)
	return value(t, &a, name)
}

func value(t testing.TB, a *Attributes, name string) string {
	t.Helper()
	v, ok := a.Get(attr(t, name))
	if ok != (v != "") {
		t.Errorf("%s: Get = %q, %v: a value is there if it is not empty", name, v, ok)
	}
	if !ok {
		return "-"
	}
	return v
}

// part returns what is malformed about a request, "" if nothing is.
func part(t testing.TB, id *Identifier, r *http.Request) string {
	t.Helper()
	var a Attributes
	id.Read(r, &a)
	err := a.Validate()
	if err == nil {
		return ""
	}
	var bad *RequestError
	if !errors.As(err, &bad) || !errors.Is(err, ErrMalformed) {
		t.Fatalf("Validate() = %v, want a *RequestError that wraps ErrMalformed", err)
	}
	return bad.Part
}
