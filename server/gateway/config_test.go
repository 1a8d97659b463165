package gateway

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

func TestConfigErrorsNameFieldAndValidValues(t *testing.T) {
	files := makeCertificate(t, t.TempDir(), "one", "localhost")
	nonsense := t.TempDir() + "/nonsense.pem"
	if err := os.WriteFile(nonsense, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		change      func(c *Config)
		field, want string
	}{
		{func(c *Config) { c.Routes = nil }, "Routes", "at least one"},
		{func(c *Config) { c.Routes[0].Upstreams = nil }, "Routes[0].Upstreams", "at least one"},
		{func(c *Config) { c.Routes[0].Upstreams[0].URL = "localhost:80" }, "Routes[0].Upstreams[0].URL", "http://host:port"},
		{func(c *Config) { c.Routes[0].Upstreams[0].URL = "http://a/base" }, "Routes[0].Upstreams[0].URL", "without a path"},
		{func(c *Config) { c.Routes[0].Upstreams[0].URL = "http://user@a" }, "Routes[0].Upstreams[0].URL", "a user"},
		{func(c *Config) { c.Routes[0].Upstreams[0].URL = "http://a?q" }, "Routes[0].Upstreams[0].URL", "a query"},
		{func(c *Config) { c.Routes[0].Upstreams[0].URL = "http://" }, "Routes[0].Upstreams[0].URL", "host:port"},
		{func(c *Config) { c.Routes[0].Upstreams[0].URL = "ftp://a" }, "Routes[0].Upstreams[0].URL", "host:port"},
		{func(c *Config) { c.Routes[0].Upstreams[0].URL = "unix:" }, "Routes[0].Upstreams[0].URL", "unix:/path"},
		{func(c *Config) { c.Routes[0].Upstreams = append(c.Routes[0].Upstreams, c.Routes[0].Upstreams[0]) }, "Routes[0].Upstreams[1].URL", "once"},
		{func(c *Config) { c.Routes[0].Upstreams[0].TLS = &UpstreamTLS{} }, "Routes[0].Upstreams[0].TLS", "not https"},
		{func(c *Config) {
			c.Routes[0].Upstreams[0] = Upstream{URL: "https://a", TLS: &UpstreamTLS{CAFile: nonsense}}
		}, "Routes[0].Upstreams[0].TLS", "PEM"},
		{func(c *Config) {
			c.Routes[0].Upstreams[0] = Upstream{URL: "h2://a", TLS: &UpstreamTLS{CertFile: nonsense, KeyFile: nonsense}}
		}, "Routes[0].Upstreams[0].TLS", "PEM"},
		{func(c *Config) { c.Routes[0].Host = "a.example:80" }, "Routes[0].Host", "without a port"},
		{func(c *Config) { c.Routes[0].Host = "*" }, "Routes[0].Host", "*.example.com"},
		{func(c *Config) { c.Routes[0].Path = "api" }, "Routes[0].Path", "/api"},
		{func(c *Config) { c.Routes[0].Path = "/a/../b" }, "Routes[0].Path", "canonical"},
		{func(c *Config) { c.Routes[0].SendHost = "a b" }, "Routes[0].SendHost", "api.example.com"},
		{func(c *Config) { c.Routes[0].DialTimeout = -1 }, "Routes[0].DialTimeout", "1ms to"},
		{func(c *Config) { c.Routes[0].TotalTimeout = -1 }, "Routes[0].TotalTimeout", "0s to"},
		{func(c *Config) { c.Routes[0].Retries = 11 }, "Routes[0].Retries", "-1 to 10"},
		{func(c *Config) { c.Routes[0].Health = &Health{} }, "Routes[0].Health.Path", "/healthz"},
		{func(c *Config) { c.Routes[0].Health = &Health{Path: "/", Timeout: time.Minute} }, "Routes[0].Health.Timeout", "5s"},
		{func(c *Config) { c.Routes[0].Health = &Health{Path: "/", Failures: -1} }, "Routes[0].Health.Failures", "1 to"},
		{func(c *Config) { c.Routes[0].Ejection.For = -1 }, "Routes[0].Ejection.For", "1ms to"},
		{func(c *Config) { c.Routes = append(c.Routes, Route{Name: "x", Upstreams: c.Routes[0].Upstreams}) }, "Routes[1]", "Routes[0] has the same"},
		{func(c *Config) {
			c.Routes[0].Name = "x"
			c.Routes = append(c.Routes, Route{Name: "x", Path: "/y", Upstreams: c.Routes[0].Upstreams})
		}, "Routes[1].Name", "a name that no other route has"},
		{func(c *Config) { c.Listeners = []Listener{{Address: "8080"}} }, "Listeners[0].Address", ":port"},
		{func(c *Config) { c.Listeners = []Listener{{Address: "unix:"}} }, "Listeners[0].Address", "a path"},
		{func(c *Config) { c.Listeners = []Listener{{Address: ":0", TLS: &TLS{}}} }, "Listeners[0].TLS.Certificates", "at least one"},
		{func(c *Config) {
			c.Listeners = []Listener{{Address: ":0", TLS: &TLS{Certificates: []CertificateFiles{files, {CertFile: "/missing", KeyFile: "/missing"}}}}}
		}, "Listeners[0].TLS.Certificates[1]", "PEM"},
		{func(c *Config) {
			c.Listeners = []Listener{{Address: ":0", TLS: &TLS{Certificates: []CertificateFiles{files}, MinVersion: 0x0301}}}
		}, "Listeners[0].TLS.MinVersion", "TLS 1.2"},
		{func(c *Config) {
			c.Listeners = []Listener{{Address: ":0", ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}}
		}, "Listeners[0].ProxyProtocol", "load balancers"},
		{func(c *Config) {
			c.Listeners = []Listener{{Address: "unix:/x", ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
		}, "Listeners[0].ProxyProtocol", "Unix socket"},
		{func(c *Config) { c.HeaderTimeout = -1 }, "HeaderTimeout", "1ms to"},
		{func(c *Config) { c.MaxHeader = 1 }, "MaxHeader", "1024 to"},
		{func(c *Config) { c.MaxBody = -1 }, "MaxBody", "0 to"},
		{func(c *Config) { c.MaxConns = -1 }, "MaxConns", "1 to"},
		{func(c *Config) { c.Upgrades = []string{"h2c"} }, "Upgrades[0]", "no HTTP requests"},
		{func(c *Config) { c.Upgrades = []string{"websocket", "HTTP/2.0"} }, "Upgrades[1]", "name of a protocol"},
		{func(c *Config) { c.Upgrades = []string{"*"} }, "Upgrades[0]", "no HTTP requests"},
		{func(c *Config) { c.OnlyFromProxies = []string{"a b"} }, "OnlyFromProxies[0]", "name of a header"},
		{func(c *Config) { c.OnlyFromProxies = []string{"Host"} }, "OnlyFromProxies[0]", "HTTP itself does not use"},
		{func(c *Config) { c.RequestIDHeader = "content-length" }, "RequestIDHeader", "HTTP itself does not use"},
		{func(c *Config) { c.Via = "a b" }, "Via", "without spaces"},
		{func(c *Config) { c.AccessLog = &AccessLog{Every: -1} }, "AccessLog.Every", "1 to"},
	} {
		c := before("http://127.0.0.1:1")
		tt.change(&c)
		err := c.Validate()
		var first *ConfigError
		if !errors.As(err, &first) {
			t.Errorf("%s: %v, want a *ConfigError", tt.field, err)
			continue
		}
		if first.Field != tt.field || !strings.Contains(first.Error(), tt.want) {
			t.Errorf("got %q about %s, want one about %s with %q", first, first.Field, tt.field, tt.want)
		}
		if _, err := New(c); err == nil {
			t.Errorf("%s: New takes what Validate refuses", tt.field)
		}
	}
}

func TestAllConfigErrorsAreReturned(t *testing.T) {
	c := before("nonsense")
	c.MaxConns, c.Via = -1, "a b"
	err := c.Validate()
	for _, field := range []string{"MaxConns", "Via", "Routes[0].Upstreams[0].URL"} {
		if !strings.Contains(errText(err), field) {
			t.Errorf("%v: does not name %s", err, field)
		}
	}
}

// A caller's Config is not changed, and later changes of it have no effect.
func TestConfigIsNotChanged(t *testing.T) {
	c := before("http://127.0.0.1:1")
	c.Routes[0].Host = "API.Example"
	c.Routes[0].Health = &Health{Path: "/"}
	c.AccessLog = &AccessLog{}
	if _, err := New(c); err != nil {
		t.Fatal(err)
	}
	r := c.Routes[0]
	if r.Path != "" || r.Host != "API.Example" || r.Health.Interval != 0 || r.Ejection.After != 0 || c.AccessLog.Every != 0 || c.MaxConns != 0 {
		t.Errorf("New has changed the Config: %+v", c)
	}
}

func TestUpstreamErrorOmitsPassword(t *testing.T) {
	for _, url := range []string{
		"http://user:hunter2@a", "ftp://user:hunter2@a/x", "http://user:hunter2%zz@a", "user:hunter2@a:80", "http://user:hunt@er2@a", "//user:hunter2@a",
	} {
		config := Config{Routes: []Route{{Upstreams: []Upstream{{URL: url}}}}}
		err := config.Validate()
		if err == nil || strings.Contains(err.Error(), "hunt") || !strings.Contains(err.Error(), "@a") {
			t.Errorf("%s: error %v, want one that shows the host and no password", url, err)
		}
	}
}
