package config

import (
	"flag"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules/source"
)

var update = flag.Bool("update", false, "write the golden files anew")

// load loads what flags, variables and the text of a file say.
func load(t *testing.T, flags map[string]string, environ []string, text string) (*Config, []string, error) {
	t.Helper()
	if text != "" {
		path := filepath.Join(t.TempDir(), "headgate.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if flags == nil {
			flags = map[string]string{}
		}
		flags["config"] = path
	}
	return Load(Given{Flags: flags, Environ: environ})
}

func TestNothingGivenIsEnough(t *testing.T) {
	c, warnings, err := load(t, nil, []string{"PATH=/bin", "HOME=/root"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if c.Store != "memory" || c.GatewayAddr != ":8080" || c.AdminAddr != "127.0.0.1:8084" || c.Rules != "" || !c.NeedsDemo() {
		t.Errorf("got %+v", c)
	}
	if len(warnings) > 0 {
		t.Errorf("got %q, want no warnings", warnings)
	}
	g, err := c.GatewayConfig("http://127.0.0.1:1234")
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Routes) != 1 || g.Routes[0].Upstreams[0].URL != "http://127.0.0.1:1234" || g.Listeners[0].Address != ":8080" {
		t.Errorf("got %+v", g)
	}
}

func TestAFlagCountsBeforeAVariableAndThatBeforeTheFile(t *testing.T) {
	values := map[string][4]string{ // by flag, by variable, by file, default
		"rules":            {"a.yaml", "b.yaml", "/c.yaml", ""},
		"db":               {"a.db", "postgres://b/x", "redis://c", ""},
		"db-follows":       {"a.yaml", "b.yaml", "/c.yaml", ""},
		"control":          {"http://a:1", "https://b:1", "http://c:1", ""},
		"token-file":       {"a.txt", "b.txt", "/c.txt", ""},
		"data-dir":         {"a", "b", "/c", ""},
		"node-id":          {"a", "b", "c", ""},
		"upstream":         {"http://a:1", "http://b:1", "http://c:1", ""},
		"store":            {"redis://a", "redis://b", "redis://c", "memory"},
		"global-store":     {"redis://a", "redis://b", "redis://c", ""},
		"gossip-addr":      {"a:6", "b:6", "off", ":8085"},
		"join":             {"a:7,b:7", "c:7", "d:7", ""},
		"gossip-key-file":  {"a.txt", "b.txt", "/c.txt", ""},
		"gateway-addr":     {"a:1", "b:1", "c:1", ":8080"},
		"api-addr":         {"a:3", "b:3", "off", "127.0.0.1:8081"},
		"grpc-addr":        {"a:4", "b:4", "off", "127.0.0.1:8082"},
		"resp-addr":        {"a:5", "b:5", "off", "127.0.0.1:8083"},
		"envoy-config":     {"a", "b", "/c", ""},
		"api-token-file":   {"a.txt", "b.txt", "/c.txt", ""},
		"admin-token-file": {"a.txt", "b.txt", "/c.txt", ""},
		"admin-addr":       {"a:2", "b:2", "off", "127.0.0.1:8084"},
		"trusted-proxies":  {"10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", ""},
		"key-secret-file":  {"a.txt", "b.txt", "/c.txt", ""},
		"namespace":        {"a", "b", "c", ""},
		"region":           {"a", "b", "c", ""},
		"log-format":       {"text", "json", "text", "json"},
		"log-level":        {"debug", "warn", "error", "info"},
	}
	partners := map[string]map[string]string{ // without which it would mean nothing
		"global-store": {"region": "eu", "store": "redis://d"},
		"control":      {"token-file": "t.txt"}, "token-file": {"control": "http://c:1"},
	}
	for _, s := range Settings() {
		v, ok := values[s.Name]
		if !ok {
			t.Errorf("%s: not tested", s.Name)
			continue
		}
		if s.Default() != v[3] {
			t.Errorf("%s: got default %q, want %q", s.Name, s.Default(), v[3])
		}
		for n := range 8 { // all combinations of who says something
			flags, environ, text, want, where := map[string]string{}, []string{}, "", v[3], s.Name
			if n&1 != 0 {
				text, want, where = s.Field()+": "+v[2]+"\n", v[2], "headgate.yaml:1:"
			}
			if n&2 != 0 {
				environ, want, where = []string{s.Variable() + "=" + v[1]}, v[1], s.Variable()
			}
			if n&4 != 0 {
				flags[s.Name], want, where = v[0], v[0], "--"+s.Name
			}
			if n > 0 {
				maps.Copy(flags, partners[s.Name])
			}
			c, _, err := load(t, flags, environ, text)
			if err != nil {
				t.Errorf("%s: %v", s.Name, err)
				continue
			}
			if got := s.get(c); got != want {
				t.Errorf("%s, flag %t, variable %t, file %t: got %q, want %q", s.Name, n&4 != 0, n&2 != 0, n&1 != 0, got, want)
			}
			if got := c.Where(s.Name); !strings.Contains(got, where) {
				t.Errorf("%s: said to be at %q, want %q", s.Name, got, where)
			}
		}
	}
}

// Of two truths none is chosen by accident.
func TestWhereRulesComeFromIsSaidOnce(t *testing.T) {
	const token = "token-file"
	for _, tt := range []struct {
		flags map[string]string
		want  string
	}{
		{map[string]string{"rules": "r.yaml", "db": "r.db"}, "--rules: given as well as --db: want one of them"},
		{map[string]string{"rules": "r.yaml", "control": "http://c:1", token: "t"}, "--rules: given as well as --control: want one of them"},
		{map[string]string{"rules": "r.yaml", "db-follows": "r.yaml"}, "--rules: given as well as --db-follows: want one of them"},
		{map[string]string{"control": "http://c:1", token: "t", "db": "r.db"}, "--control: given as well as --db: want one of them"},
		{map[string]string{"control": "http://c:1", token: "t", "db-follows": "f"}, "--control: given as well as --db-follows: want one of them"},
		{map[string]string{"control": "http://c:1"}, "--control: given without --token-file: want a file with a token"},
		{map[string]string{"control": "c:1", token: "t"}, "--control: no such rules service: want a URL"},
		{map[string]string{"control": "http://user:hush@c:1", token: "t"}, "--control: no such rules service: want a URL"},
		{map[string]string{token: "t"}, "--token-file: given without --control: want the URL"},
		{map[string]string{"db": "mysql://user:hush@db/x"}, "--db: no such database: want a file, or a URL"},
		{map[string]string{"db-follows": "."}, "--db-follows: a directory: want a file"},
		{map[string]string{"node-id": "a b"}, `--node-id: "a b": want letters, digits`},
	} {
		_, _, err := load(t, tt.flags, nil, "")
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v: got %v, want %s", tt.flags, err, tt.want)
		}
	}
	for text, want := range map[string]string{
		"rules_service: { poll: 1ms }":                    "want 1s to 10m",
		"rules_service: { keep_history: 1m }":             "want at least 1h, or off",
		"rules_service: { hook_secret_file: secret.txt }": "given without control",
		"admin: { tls: {} }":                              "no certificates",
	} {
		if _, _, err := load(t, nil, nil, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestStateIsKeptWhereTheSystemSays(t *testing.T) {
	for _, tt := range []struct {
		flags   map[string]string
		environ []string
		want    string
	}{
		{map[string]string{"data-dir": "x"}, []string{"HOME=/h", "STATE_DIRECTORY=/s"}, "x"},
		{nil, []string{"HOME=/h", "XDG_STATE_HOME=/x", "STATE_DIRECTORY=/s:/t"}, "/s"},
		{nil, []string{"HOME=/h", "XDG_STATE_HOME=/x"}, "/x/headgate"},
		{nil, []string{"HOME=/h", "XDG_STATE_HOME=relative"}, "/h/.local/state/headgate"},
		{nil, []string{"HOME=/h"}, "/h/.local/state/headgate"},
		{nil, nil, ""},
	} {
		c, _, err := load(t, tt.flags, tt.environ, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.StateDir(); got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%v %v: got %q, %v, want %q", tt.flags, tt.environ, got, err, tt.want)
		}
	}
}

func TestTheFileMayBeNamedByAVariable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(path, []byte(`{"region": "eu"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := load(t, nil, []string{"HEADGATE_CONFIG=" + path}, "")
	if err != nil || c.Region != "eu" || c.File() != path {
		t.Errorf("got %+v, %v", c, err)
	}
	for from, given := range map[string]Given{
		"--config":        {Flags: map[string]string{"config": path + "x"}},
		"HEADGATE_CONFIG": {Environ: []string{"HEADGATE_CONFIG=" + path + "x"}},
	} {
		if _, _, err := Load(given); err == nil || !strings.HasPrefix(err.Error(), from+": read the configuration: ") {
			t.Errorf("got %v, want an error about %s", err, from)
		}
	}
}

func TestFilesAreNamedFromWhereTheConfigurationIs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	text := "rules: rules.yaml\nkey_secret_file: /etc/secret\nidentity: { jwt: { jwks_file: keys.json } }\n" +
		"gateway: { listeners: [{ addr: ':1', tls: { certificates: [{ cert_file: tls/a.crt, key_file: tls/a.key }] } }] }\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := Load(Given{Flags: map[string]string{"config": path}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ got, want string }{
		{c.Rules, filepath.Join(dir, "rules.yaml")},
		{c.KeySecretFile, "/etc/secret"},
		{c.Identity.JWT.JWKSFile, filepath.Join(dir, "keys.json")},
		{c.Gateway.Listeners[0].TLS.Certificates[0].CertFile, filepath.Join(dir, "tls", "a.crt")},
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}

func TestVariablesThatAreNoneAreSaid(t *testing.T) {
	_, warnings, err := load(t, nil, []string{
		"HEADGATE_UPSTREM=http://a:1",
		"HEADGATE_RULES=", // as good as none
		// What Kubernetes sets where there is a service of the name headgate.
		"HEADGATE_SERVICE_HOST=10.0.0.1", "HEADGATE_SERVICE_PORT=80", "HEADGATE_PORT=tcp://10.0.0.1:80",
		"HEADGATE_PORT_80_TCP_ADDR=10.0.0.1", "HEADGATE_SERVICE_PORT_HTTP=80",
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "HEADGATE_UPSTREM") || !strings.Contains(warnings[0], "HEADGATE_UPSTREAM") {
		t.Errorf("got %q, want one about HEADGATE_UPSTREM", warnings)
	}
}

func TestBadSettingsAreSaidToBeWhereTheyAre(t *testing.T) {
	for _, tt := range []struct {
		flags   map[string]string
		environ []string
		want    string
	}{
		{map[string]string{"store": "mongodb://user:hush@host"}, nil, "--store: no such store: want memory, or a URL"},
		{nil, []string{"HEADGATE_GATEWAY_ADDR=8080"}, `HEADGATE_GATEWAY_ADDR: "8080": want host:port`},
		{map[string]string{"admin-addr": "localhost:http"}, nil, `--admin-addr: "localhost:http": want host:port`},
		{map[string]string{"admin-addr": "localhost:70000"}, nil, `--admin-addr: "localhost:70000": want host:port`},
		{map[string]string{"trusted-proxies": "10.0.0.0/8,nobody"}, nil, `--trusted-proxies: network "nobody": want an address or a network`},
		{map[string]string{"trusted-proxies": "0.0.0.0/0"}, nil, "is everybody"},
		{map[string]string{"log-format": "xml"}, nil, `--log-format: "xml": want json or text`},
		{map[string]string{"log-level": "loud"}, nil, "--log-level: "},
		{map[string]string{"namespace": "a b"}, nil, "--namespace: "},
		{map[string]string{"namespace": "a/b"}, nil, `--namespace: "a/b": want letters`},
		{map[string]string{"namespace": "_system"}, nil, `--namespace: "_system": want letters`},
		{nil, []string{"HEADGATE_NODE_ID=a/b"}, `HEADGATE_NODE_ID: "a/b": want letters`},
		{map[string]string{"region": "a b"}, nil, "--region: "},
	} {
		_, _, err := load(t, tt.flags, tt.environ, "")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		} else if strings.Contains(err.Error(), "hush") {
			t.Errorf("got %v, which tells a password", err)
		}
	}
}

func TestBadFilesAreRefusedWithTheirPlaces(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			c, _, err := Load(Given{Flags: map[string]string{"config": path}})
			if err == nil {
				_, err = c.GatewayConfig("http://127.0.0.1:1")
			}
			if err == nil {
				_, err = c.JWTConfig()
			}
			if err == nil {
				t.Fatal("it is taken")
			}
			got := strings.ReplaceAll(err.Error(), "testdata/bad/", "") + "\n"
			golden := strings.TrimSuffix(path, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// decode reads a file without asking what its settings mean together.
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

// Whoever adds a field must add it to the file that tests go by.
func TestTheFullFileHasEveryField(t *testing.T) {
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

// adopt panics if a field has no counterpart.
func TestEveryFieldReachesTheGateway(t *testing.T) {
	c := decode(t, "testdata/full.yaml")
	var g gateway.Config
	adopt(&g, c.Gateway)
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

// Fields of the gateway that a file cannot say are those that are made of other parts.
func TestTheFileCanSayWhatTheGatewayTakes(t *testing.T) {
	for _, tt := range []struct {
		of, in reflect.Type
		not    []string
	}{
		{reflect.TypeFor[gateway.Config](), reflect.TypeFor[Gateway](), []string{"Limit", "Identity", "NetHTTP", "Observe", "Logger"}},
		{reflect.TypeFor[gateway.Listener](), reflect.TypeFor[Listener](), nil},
		{reflect.TypeFor[gateway.TLS](), reflect.TypeFor[TLS](), nil},
		{reflect.TypeFor[gateway.Route](), reflect.TypeFor[Route](), nil},
		{reflect.TypeFor[gateway.Upstream](), reflect.TypeFor[Upstream](), nil},
		{reflect.TypeFor[gateway.UpstreamTLS](), reflect.TypeFor[UpstreamTLS](), nil},
		{reflect.TypeFor[gateway.Health](), reflect.TypeFor[Health](), nil},
		{reflect.TypeFor[gateway.Ejection](), reflect.TypeFor[Ejection](), nil},
		{reflect.TypeFor[gateway.AccessLog](), reflect.TypeFor[AccessLog](), []string{"Logger"}},
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

func TestIdentityIsAsTheFileSays(t *testing.T) {
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

func TestAnAPIKeyInTheQueryIsReadBesidesTheHeader(t *testing.T) {
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

func TestSizesCountsAndTimes(t *testing.T) {
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
	for text, want := range map[string]Count{"0": CountOff, "off": CountOff, "12": 12} {
		if got, err := parseCount(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1.5", "99999999999"} {
		if got, err := parseCount(text); err == nil {
			t.Errorf("count %q: got %d, want an error", text, got)
		}
	}
	for text, want := range map[string]Span{"off": SpanOff, "500ms": Span(500 * time.Millisecond)} {
		if got, err := parseSpan(text); err != nil || got != want {
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
		adopt(&g, c.Gateway)
		again := defaults()
		text := source.YAML(newCodec().Encode(c))
		c.file, c.origins = nil, nil
		if err := again.parseFile("headgate.yaml", text); err != nil {
			t.Fatalf("written as\n%s\nwhich cannot be read: %v", text, err)
		}
	})
}
