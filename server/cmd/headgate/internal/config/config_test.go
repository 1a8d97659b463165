package config

import (
	"flag"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// load loads the settings of flags, variables and the text of a file.
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
	return Load(Inputs{Flags: flags, Environ: environ})
}

func TestDefaultsAreValid(t *testing.T) {
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

func TestFlagsOverrideVariablesAndThoseTheFile(t *testing.T) {
	values := map[string][4]string{ // by flag, by variable, by file, default
		"rules":                  {"a.yaml", "b.yaml", "/c.yaml", ""},
		"db":                     {"a.db", "postgres://b/x", "redis://c", ""},
		"db-follows":             {"a.yaml", "b.yaml", "/c.yaml", ""},
		"control":                {"http://a:1", "https://b:1", "http://c:1", ""},
		"token-file":             {"a.txt", "b.txt", "/c.txt", ""},
		"data-dir":               {"a", "b", "/c", ""},
		"node-id":                {"a", "b", "c", ""},
		"upstream":               {"http://a:1", "http://b:1", "http://c:1", ""},
		"store":                  {"redis://a", "redis://b", "redis://c", "memory"},
		"global-store":           {"redis://a", "redis://b", "redis://c", ""},
		"gossip-addr":            {"a:6", "b:6", "off", ":8085"},
		"join":                   {"a:7,b:7", "c:7", "d:7", ""},
		"gossip-key-file":        {"a.txt", "b.txt", "/c.txt", ""},
		"gateway-addr":           {"a:1", "b:1", "c:1", ":8080"},
		"api-addr":               {"a:3", "b:3", "off", "127.0.0.1:8081"},
		"grpc-addr":              {"a:4", "b:4", "off", "127.0.0.1:8082"},
		"resp-addr":              {"a:5", "b:5", "off", "127.0.0.1:8083"},
		"envoy-config":           {"a", "b", "/c", ""},
		"api-token-file":         {"a.txt", "b.txt", "/c.txt", ""},
		"admin-token-file":       {"a.txt", "b.txt", "/c.txt", ""},
		"admin-addr":             {"a:2", "b:2", "off", "127.0.0.1:8084"},
		"trusted-proxies":        {"10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", ""},
		"key-secret-file":        {"a.txt", "b.txt", "/c.txt", ""},
		"second-key-secret-file": {"a.txt", "b.txt", "/c.txt", ""},
		"namespace":              {"a", "b", "c", ""},
		"region":                 {"a", "b", "c", ""},
		"demo-traffic":           {"on", "off", "on", ""},
		"traces":                 {"grpc://a:1", "http://b:1", "off", ""},
		"traces-sample":          {"0.1", "0.2", "1", ""},
		"traces-parents":         {"none", "proxies", "none", "all"},
		"log-format":             {"text", "json", "text", "auto"},
		"log-level":              {"debug", "warn", "error", "info"},
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
		if s.Default != v[3] {
			t.Errorf("%s: got default %q, want %q", s.Name, s.Default, v[3])
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
			if got := valueText(c, &s); got != want {
				t.Errorf("%s, flag %t, variable %t, file %t: got %q, want %q", s.Name, n&4 != 0, n&2 != 0, n&1 != 0, got, want)
			}
			if got := c.Origin(s.Name); !strings.Contains(got, where) {
				t.Errorf("%s: said to be at %q, want %q", s.Name, got, where)
			}
		}
	}
}

// valueText returns the value of a setting as a flag would have it.
func valueText(c *Config, s *Setting) string {
	switch value := reflect.ValueOf(c).Elem().Field(s.fieldIndex).Interface().(type) {
	case []string:
		return strings.Join(value, ",")
	case []netip.Prefix:
		var list []string
		for _, p := range value {
			list = append(list, p.String())
		}
		return strings.Join(list, ",")
	default:
		return value.(string)
	}
}

func TestTwoSourcesOfRulesAreRefused(t *testing.T) {
	const token = "token-file"
	for _, tt := range []struct {
		flags map[string]string
		want  string
	}{
		{map[string]string{"rules": "r.yaml", "db": "r.db"}, "--rules: given as well as --db: want only one of them"},
		{map[string]string{"rules": "r.yaml", "control": "http://c:1", token: "t"}, "--rules: given as well as --control: want only one of them"},
		{map[string]string{"rules": "r.yaml", "db-follows": "r.yaml"}, "--rules: given as well as --db-follows: want only one of them"},
		{map[string]string{"control": "http://c:1", token: "t", "db": "r.db"}, "--control: given as well as --db: want only one of them"},
		{map[string]string{"control": "http://c:1", token: "t", "db-follows": "f"}, "--control: given as well as --db-follows: want only one of them"},
		{map[string]string{"control": "http://c:1"}, "--control: given without --token-file: want a file with a token"},
		{map[string]string{"control": "c:1", token: "t"}, "--control: not a valid URL of a rules service: want a URL"},
		{map[string]string{"control": "http://user:hush@c:1", token: "t"}, "--control: not a valid URL of a rules service: want a URL"},
		{map[string]string{token: "t"}, "--token-file: given without --control: want the URL"},
		{map[string]string{"db": "mysql://user:hush@db/x"}, "--db: not a database that Headgate supports: want a file, or a URL"},
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
		"admin: { hosts: ['rules.example.com:8084'] }":    "want a name without port",
		"admin: { hosts: [a, 'http://b'] }":               "want a name without port",
		"admin: { hosts: [''] }":                          "want a name without port",
		"admin: { hosts: ['*example.com'] }":              "want a name without port",
		"admin: { hosts: ['*.'] }":                        "want a name without port",
		"admin: { hosts: ['a.*'] }":                       "want a name without port",
	} {
		if _, _, err := load(t, nil, nil, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// Variables of commands that call a rules service cause neither an error nor a warning.
func TestVariablesOfOtherCommandsAreIgnored(t *testing.T) {
	environ := []string{"HEADGATE_TOKEN_FILE=/nowhere", "HEADGATE_SERVER=http://c:1", "HEADGATE_TOKEN=x", "HEADGATE_CONTEXT=x", "HEADGATE_CONTEXTS=/nowhere"}
	for _, text := range []string{"", "upstream: http://localhost:9000\n", "rules_service: { poll: 1m }\n"} {
		if _, warnings, err := load(t, nil, environ, text); err != nil || len(warnings) > 0 {
			t.Errorf("%q: got %q, %v, want neither a warning nor an error", text, warnings, err)
		}
	}
	if c, _, err := load(t, nil, environ, "control: http://c:1\n"); err != nil || c.TokenFile != "/nowhere" {
		t.Errorf("with control: got %v, want the file of the variable", err)
	}
	// In the file, as on the command line, it was meant for this node.
	if _, _, err := load(t, nil, nil, "token_file: t.txt\n"); err == nil || !strings.Contains(err.Error(), "given without --control") {
		t.Errorf("in the file: got %v", err)
	}
}

func TestStateDirFollowsTheEnvironment(t *testing.T) {
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

func TestVariableNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(path, []byte(`{"region": "eu"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := load(t, nil, []string{"HEADGATE_CONFIG=" + path}, "")
	if err != nil || c.Region != "eu" || c.File() != path {
		t.Errorf("got %+v, %v", c, err)
	}
	for from, given := range map[string]Inputs{
		"--config":        {Flags: map[string]string{"config": path + "x"}},
		"HEADGATE_CONFIG": {Environ: []string{"HEADGATE_CONFIG=" + path + "x"}},
	} {
		if _, _, err := Load(given); err == nil || !strings.HasPrefix(err.Error(), from+": read the configuration: ") {
			t.Errorf("got %v, want an error about %s", err, from)
		}
	}
}

func TestPathsAreRelativeToTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	text := "rules: rules.yaml\nkey_secret_file: /etc/secret\nidentity: { jwt: { jwks_file: keys.json } }\n" +
		"gateway: { listeners: [{ addr: ':1', tls: { certificates: [{ cert_file: tls/a.crt, key_file: tls/a.key }] } }] }\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := Load(Inputs{Flags: map[string]string{"config": path}})
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

func TestUnknownVariablesAreWarnedAbout(t *testing.T) {
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

func TestInvalidSettingsAreReportedWithOrigin(t *testing.T) {
	for _, tt := range []struct {
		flags   map[string]string
		environ []string
		want    string
	}{
		{map[string]string{"store": "mongodb://user:hush@host"}, nil, "--store: not a store that Headgate supports: want memory, or a URL"},
		{nil, []string{"HEADGATE_GATEWAY_ADDR=8080"}, `HEADGATE_GATEWAY_ADDR: "8080": want host:port`},
		{map[string]string{"admin-addr": "localhost:http"}, nil, `--admin-addr: "localhost:http": want host:port`},
		{map[string]string{"admin-addr": "localhost:70000"}, nil, `--admin-addr: "localhost:70000": want host:port`},
		{map[string]string{"trusted-proxies": "10.0.0.0/8,nobody"}, nil, `--trusted-proxies: network "nobody": want an address or a network`},
		{map[string]string{"trusted-proxies": "0.0.0.0/0"}, nil, "all addresses"},
		{map[string]string{"log-format": "xml"}, nil, `--log-format: "xml": want auto, json or text`},
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

func TestInvalidFilesAreRefusedWithPositions(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			c, _, err := Load(Inputs{Flags: map[string]string{"config": path}})
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
