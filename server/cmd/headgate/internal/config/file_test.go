package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/gateway"
)

// decode reads a file without validating combinations of settings.
func decode(t *testing.T, path string) *Config {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := defaults()
	if err := c.parseFile(path, data); err != nil {
		t.Fatal(err)
	}
	return &c
}

// A new field must be added to the file that tests use.
func TestFullFileHasEveryField(t *testing.T) {
	c := decode(t, "testdata/full.yaml")
	var zero []string
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice {
			if v.Kind() == reflect.Slice && v.Len() > 0 && v.Type().Elem().Kind() == reflect.Struct {
				v = v.Index(v.Len() - 1)
			} else if v.Kind() == reflect.Pointer && !v.IsNil() {
				v = v.Elem()
			} else {
				break
			}
		}
		if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[netip.Prefix]() {
			if v.IsZero() {
				zero = append(zero, path)
			}
			return
		}
		for i := range v.NumField() {
			if name := source.Names(v.Type()); len(name) > 0 && v.Type().Field(i).Tag.Get("field") != "" {
				walk(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		}
	}
	walk(reflect.ValueOf(*c), "")
	if want := []string{".TrustedProxies"}; !slices.Equal(zero, want) { // which stands at its other place
		t.Errorf("got %q not set, want %q", zero, want)
	}
}

// copyFields panics if a field has no counterpart.
func TestEveryGatewayFieldIsCopied(t *testing.T) {
	c := decode(t, "testdata/full.yaml")
	var g gateway.Config
	copyFields(&g, c.Gateway)
	r := g.Routes[0]
	for _, tt := range []struct {
		field     string
		got, want any
	}{
		{"listener", g.Listeners[0].Address, "127.0.0.1:8443"},
		{"http2", g.Listeners[0].NoHTTP2, true},
		{"proxy protocol", g.Listeners[0].ProxyProtocol, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		{"key file", g.Listeners[0].TLS.Certificates[0].KeyFile, "testdata/tls.key"},
		{"min version", g.Listeners[0].TLS.MinVersion, uint16(0x304)},
		{"upstream", r.Upstreams[0].URL, "http://10.0.0.1:9000"},
		{"upstream tls", *r.Upstreams[1].TLS, gateway.UpstreamTLS{
			CAFile: "testdata/ca.pem", ServerName: "api", CertFile: "testdata/c.pem", KeyFile: "testdata/k.pem", InsecureSkipVerify: true,
		}},
		{"max body", r.MaxBody, int64(-1)},
		{"retries", r.Retries, -1},
		{"health", *r.Health, gateway.Health{
			Path: "/healthz", Host: "h", Interval: 6 * time.Second, Timeout: time.Second, Failures: 7, Successes: 8,
		}},
		{"ejection", r.Ejection, gateway.Ejection{After: 9, Count5xx: true, For: 10 * time.Second, SlowReturn: -1}},
		{"min body rate", g.MinBodyRate, -1},
		{"max header", g.MaxHeader, 32 << 10},
		{"max body of all", g.MaxBody, int64(1_000_000)},
		{"access log", *g.AccessLog, gateway.AccessLog{Every: 1, PerSecond: 2, Queue: 3, Query: true}},
		{"drain timeout", g.DrainTimeout, 12 * time.Second},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.field, tt.got, tt.want)
		}
	}
}

// Only fields that are created from other parts are missing in the file.
func TestFileHasEveryFieldOfTheGateway(t *testing.T) {
	for _, tt := range []struct {
		of, in reflect.Type
		not    []string
	}{
		{reflect.TypeFor[gateway.Config](), reflect.TypeFor[Gateway](), []string{"Limit", "Identity", "Descriptors", "NetHTTP", "Observe", "Tracer", "Logger"}},
		{reflect.TypeFor[gateway.Listener](), reflect.TypeFor[Listener](), nil},
		{reflect.TypeFor[gateway.TLS](), reflect.TypeFor[TLS](), nil},
		{reflect.TypeFor[gateway.Route](), reflect.TypeFor[Route](), nil},
		{reflect.TypeFor[gateway.Upstream](), reflect.TypeFor[Upstream](), nil},
		{reflect.TypeFor[gateway.UpstreamTLS](), reflect.TypeFor[UpstreamTLS](), nil},
		{reflect.TypeFor[gateway.Health](), reflect.TypeFor[Health](), nil},
		{reflect.TypeFor[gateway.Ejection](), reflect.TypeFor[Ejection](), nil},
		{reflect.TypeFor[gateway.AccessLog](), reflect.TypeFor[AccessLog](), []string{"Logger", "Batch"}},
	} {
		var missing []string
		for f := range tt.of.Fields() {
			if _, ok := tt.in.FieldByName(f.Name); !ok {
				missing = append(missing, f.Name)
			}
		}
		if !slices.Equal(missing, tt.not) {
			t.Errorf("%v: got no %v, want no %v", tt.of, missing, tt.not)
		}
	}
}

func TestIdentityIsReadFromTheFile(t *testing.T) {
	c := decode(t, "testdata/full.yaml")
	c.TrustedProxies = c.Identity.TrustedProxies
	got := c.IdentityConfig([]byte("0123456789abcdef"), nil)
	want := identity.Config{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32")},
		Hops:           2, ForwardingHeader: "Forwarded", IPv4Prefix: 24, IPv6Prefix: 56, APIKeyHeader: "X-Key", APIKeyQuery: "key",
		UserFrom: []identity.UserSource{identity.UserFromToken, identity.UserFromHeader}, UserHeader: "X-Login",
		Secret:   []byte("0123456789abcdef"),
		Paths:    identity.PathRules{EncodedSlash: identity.KeepSlash, KeepDoubleSlashes: true, Parameters: identity.CutParameters},
		Repeated: identity.LastRepeated,
		Region:   "eu", Namespace: "shop", MaxCookies: 8 << 10, MaxQuery: 4 << 10, MaxPath: 2 << 10,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got, want := c.onlyFromProxies(), []string{"X-Login", "Forwarded"}; !slices.Equal(got[len(got)-2:], want) {
		t.Errorf("got %q kept from clients, want %q among them", got, want)
	}
}

func TestAPIKeyQueryKeepsTheDefaultHeader(t *testing.T) {
	for text, want := range map[string][2]string{
		"identity: { api_key_query: key }\n":                        {identity.DefaultAPIKeyHeader, "key"},
		"identity: { api_key_query: key, api_key_header: X-Key }\n": {"X-Key", "key"},
		"identity: { api_key_header: X-Key }\n":                     {"X-Key", ""},
		"identity: {}\n":                                            {identity.DefaultAPIKeyHeader, ""},
	} {
		c, _, err := load(t, nil, nil, text)
		if err != nil {
			t.Fatal(err)
		}
		id := c.IdentityConfig(nil, nil)
		if got := [2]string{id.APIKeyHeader, id.APIKeyQuery}; got != want {
			t.Errorf("%s: got header and parameter %q, want %q", text, got, want)
		}
	}
}

func TestSecretsAreReadFromFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]string{
		"0123456789abcdef0123":     "0123456789abcdef0123",
		"0123456789abcdef0123\n":   "0123456789abcdef0123",
		"0123456789abcdef0123\r\n": "0123456789abcdef0123",
		"short\n":                  "",
		"":                         "",
		strings.Repeat("x", 4097):  "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := load(t, map[string]string{"key-secret-file": path}, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Secret()
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%.30q: got %q, %v, want %q", text, got, err, want)
		}
		if err != nil && (!strings.HasPrefix(err.Error(), "--key-secret-file: ") || strings.Contains(err.Error(), "short")) {
			t.Errorf("got %v", err)
		}
	}
}

func TestParseSizesCountsAndDurations(t *testing.T) {
	for text, want := range map[string]Size{"1": 1, "64KiB": 64 << 10, "10 MB": 10_000_000, "2GiB": 2 << 30, "1kB": 1000, "5B": 5} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
		if again, err := parseSize(want.String()); err != nil || again != want {
			t.Errorf("%s: written as %s, which is read as %d, %v", text, want, again, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "1.5MB", "KiB", "9999999999999999TiB", "1KB extra"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("size %q: got %d, want an error", text, got)
		}
	}
	for text, want := range map[string]CountOrOff{"0": CountOff, "off": CountOff, "12": 12} {
		if got, err := parseCountOrOff(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1.5", "99999999999"} {
		if got, err := parseCountOrOff(text); err == nil {
			t.Errorf("count %q: got %d, want an error", text, got)
		}
	}
	for text, want := range map[string]DurationOrOff{"off": DurationOff, "500ms": DurationOrOff(500 * time.Millisecond)} {
		if got, err := parseDurationOrOff(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
}

func FuzzFile(f *testing.F) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range append(files, "testdata/full.yaml") {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := defaults()
		c.origins = map[string]origin{}
		if c.parseFile("headgate.yaml", data) != nil || c.validate() != nil {
			return
		}
		var g gateway.Config
		copyFields(&g, c.Gateway)
		again := defaults()
		text := source.YAML(newCodec().Encode(c))
		c.file, c.origins = nil, nil
		if err := again.parseFile("headgate.yaml", text); err != nil {
			t.Fatalf("written as\n%s\nwhich cannot be read: %v", text, err)
		}
	})
}
