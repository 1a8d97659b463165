package config

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control/follow"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/internal/certs"
	"github.com/headgate/headgate/server/internal/conns"
	"github.com/headgate/headgate/server/service"
)

// RulesService configures the rules service in this process, or the connection to a remote one (Config.Control).
type RulesService struct {
	Poll           time.Duration  `field:"poll" default:"10s" doc:"Interval at which a node polls for rules, in addition to the push stream. From 1s to 10m."`
	CAFile         string         `field:"ca_file" doc:"PEM file with CA certificates that are trusted for TLS connections between the rules service and its nodes. Default: the system's."`
	Address        string         `field:"address" doc:"URL at which the rules service reaches the admin listener of this node, to query its counters, such as http://10.0.0.7:8084. Default: admin_addr; if that listens on all addresses, the source address of heartbeats."`
	HookSecretFile string         `field:"hook_secret_file" doc:"File with the secret of a webhook of the remote rules service. POST /v1/hooks/rules on admin_addr then makes this node poll immediately. Default: none; POST /v1/hooks/rules is not available."`
	HookNetworks   []netip.Prefix `field:"hook_networks" doc:"Private networks to which the rules service may send webhooks, such as 10.0.0.0/8. Default: none."`
	KeepHistory    DurationOrOff  `field:"keep_history" default:"8760h" doc:"How long changes stay in the history, or off for unlimited. The current state and the last change of each rule are always kept."`
}

// DefaultKeepHistory is the default of RulesService.KeepHistory: 365 days.
const DefaultKeepHistory = 8760 * time.Hour

// Admin configures the listener of admin_addr.
type Admin struct {
	Hosts              []string    `field:"hosts" doc:"Accepted host names of admin_addr, such as rules.example.com, *.example.com for all subdomains, or * for all. Requests with other names are rejected, except for localhost, IP addresses and the node's own host name. Default: all names, but requests of browsers to a public name are rejected unless they use TLS."`
	MaxConns           int         `field:"max_conns" default:"20000" doc:"Maximum number of connections. It works like service.max_conns. Each node that follows the rules service uses one."`
	MaxConnsPerAddress CountOrOff  `field:"max_conns_per_address" doc:"Maximum number of connections from one address, or off. Trusted proxies and Unix sockets are exempt. Default: a quarter of max_conns, at least 64."`
	TLS                *ServiceTLS `field:"tls" doc:"TLS certificates, and client authentication. Default: no TLS."`
}

// AdminMaxConns returns the maximum number of connections of the admin listener.
func (c *Config) AdminMaxConns() int { return cmp.Or(c.Admin.MaxConns, service.DefaultMaxConns) }

// A RulesSource is the place from which a node gets its rules.
type RulesSource int

// The sources of rules.
const (
	FromDatabase RulesSource = iota // the database of the rules service in this process
	FromFile
	FromControl // a remote rules service
)

// RulesSource returns the source of the rules.
func (c *Config) RulesSource() RulesSource {
	switch {
	case c.Rules != "":
		return FromFile
	case c.Control != "":
		return FromControl
	}
	return FromDatabase
}

// validateRules returns an error if the rules have two sources.
func (c *Config) validateRules() error {
	if c.Rules == "" {
		return nil
	}
	for _, other := range []struct{ name, value, want string }{
		{"control", c.Control, onlyOne},
		{"db", c.DB, onlyOne + ": with a rules file there is no database. For a database that follows a file, use --db-follows"},
		{"db-follows", c.DBFollows, onlyOne},
	} {
		if other.value != "" {
			return &valueError{"given as well as " + c.Origin(other.name), other.want}
		}
	}
	return nil
}

func (c *Config) validateControl() error {
	if c.Control == "" {
		return nil
	}
	for _, other := range []struct{ name, value string }{{"db", c.DB}, {"db-follows", c.DBFollows}} {
		if other.value != "" {
			return &valueError{
				"given as well as " + c.Origin(other.name),
				onlyOne + ": a node of a remote rules service has no database",
			}
		}
	}
	network, path := conns.Split(c.Control)
	u, err := url.Parse(c.Control)
	if network == "unix" {
		if path == "" {
			return invalidValue(c.Control, "a path after unix:")
		}
	} else if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return &valueError{
			"not a valid URL of a rules service",
			"a URL such as https://rules.example.com:8084, and the token in --token-file",
		}
	}
	if c.TokenFile == "" {
		return &valueError{
			"given without --token-file",
			"a file with a token of the role node: headgate tokens create --role node",
		}
	}
	return nil
}

// validateTokenFile returns an error if the token is unused. HEADGATE_TOKEN_FILE may be set without Control, because
// other commands use it too.
func (c *Config) validateTokenFile() error {
	if c.TokenFile != "" && c.Control == "" && !c.origins["token-file"].isEnv() {
		return &valueError{"given without --control", "the URL of the rules service that the token is for"}
	}
	return nil
}

func (c *Config) validateDB() error {
	scheme, _, isURL := strings.Cut(c.DB, "://")
	scheme = strings.ToLower(scheme)
	isRedis := slices.Contains(redisSchemes, scheme+"://")
	if !isURL || scheme == "sqlite" || strings.HasPrefix(scheme, "postgres") || isRedis {
		return nil
	}
	// Do not show the value: it may contain a password.
	return &valueError{
		"not a database that Headgate supports",
		"a file, or a URL that begins with postgres://, redis://, rediss://, redis-cluster:// or redis-sentinel://",
	}
}

func (c *Config) validateDBFollows() error {
	if c.DBFollows == "" {
		return nil
	}
	if info, err := os.Stat(c.DBFollows); err == nil && info.IsDir() {
		return &valueError{"a directory", "a file"}
	}
	return nil
}

// validateRulesService checks values. The packages that use the values check them, too, but only errors from here have
// positions in the configuration file.
func (c *Config) validateRulesService() error {
	s := &c.RulesService
	if s.Poll != 0 && (s.Poll < time.Second || s.Poll > 10*time.Minute) {
		return c.problemAt("rules_service.poll", s.Poll.String(), "1s to 10m")
	}
	if s.KeepHistory != 0 && s.KeepHistory != DurationOff && s.KeepHistory.Duration() < time.Hour {
		return c.problemAt("rules_service.keep_history", s.KeepHistory.String(), "at least 1h, or off")
	}
	if s.Address != "" && !isServerURL(s.Address) {
		return c.problemAt("rules_service.address", "not a valid address", "http://HOST:PORT or https://HOST:PORT")
	}
	if s.HookSecretFile != "" && c.RulesSource() != FromControl {
		return c.problemAt("rules_service.hook_secret_file", "given without control",
			"the URL of the rules service that sends the webhooks")
	}
	for i, host := range c.Admin.Hosts {
		if !isHostPattern(host) {
			return c.problemAt(fmt.Sprintf("admin.hosts[%d]", i), rules.Quote(host),
				"a name without port, such as rules.example.com or *.example.com, or *")
		}
	}
	if t := c.Admin.TLS; t != nil && len(t.Certificates) == 0 {
		return c.problemAt("admin.tls", "no certificates", "certificates: [{ cert_file: tls.crt, key_file: tls.key }]")
	}
	return nil
}

// isServerURL reports whether text consists of http:// or https://, a host, and an optional port.
func isServerURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false
	}
	return u.User == nil && u.Path == "" && u.RawQuery == "" && u.Fragment == ""
}

// isHostPattern reports whether text is a host name without a port, "*." and a host name, or "*".
func isHostPattern(text string) bool {
	if text == "*" {
		return true
	}
	name, wildcard := strings.CutPrefix(text, "*")
	if wildcard && !strings.HasPrefix(name, ".") {
		return false
	}
	return strings.Trim(name, ".") != "" && !strings.ContainsAny(name, "*:/@[] \t")
}

// PollEvery returns the interval at which the rules service is polled.
func (c *Config) PollEvery() time.Duration { return cmp.Or(c.RulesService.Poll, follow.DefaultPoll) }

// KeepHistory returns how long changes stay in the history, or 0 for unlimited.
func (c *Config) KeepHistory() time.Duration {
	switch c.RulesService.KeepHistory {
	case DurationOff:
		return 0
	case 0:
		return DefaultKeepHistory
	}
	return c.RulesService.KeepHistory.Duration()
}

// ControlNamespace returns the namespace whose rules apply, if they come from a rules service.
func (c *Config) ControlNamespace() string { return cmp.Or(c.Namespace, remote.DefaultNamespace) }

// RemoteConfig returns the configuration of the client of the rules service at Control.
func (c *Config) RemoteConfig(version string) (remote.Config, error) {
	result := remote.Config{
		URL: c.Control, Namespace: c.ControlNamespace(), UserAgent: "headgate/" + version,
		TokenFrom: func() (string, error) { return ReadLine(c.TokenFile) },
	}
	if _, err := result.TokenFrom(); err != nil {
		return result, fmt.Errorf("%s: %w", c.Origin("token-file"), err)
	}
	var err error
	result.TLS, err = c.RulesServiceTLS()
	return result, err
}

// RulesServiceTLS returns the TLS configuration for calls to the rules service and to its nodes, or nil for the
// default.
func (c *Config) RulesServiceTLS() (*tls.Config, error) {
	if c.RulesService.CAFile == "" {
		return nil, nil
	}
	result, err := TrustCAFile(c.RulesService.CAFile)
	if err != nil {
		return nil, c.problemAt("rules_service.ca_file", err.Error(), "a file with certificates in PEM")
	}
	return result, nil
}

// TrustCAFile returns a TLS configuration that trusts the CA certificates in a PEM file.
func TrustCAFile(path string) (*tls.Config, error) {
	certificates, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certificates) {
		return nil, fmt.Errorf("%s contains no certificate", path)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// SharedCountersID returns an ID of the shared store without secrets, or "" with store: memory. Nodes with the same ID
// share counters, so the rules service queries only one of them. If nodes use different URLs for the same store, their
// IDs differ, and the rules service queries each of them.
func (c *Config) SharedCountersID() string {
	kind, _, ok := strings.Cut(c.Store, "://")
	if c.Store == StoreMemory || !ok {
		return ""
	}
	sum := sha256.New()
	for _, text := range []string{c.Store, c.GlobalStore} {
		if u, err := url.Parse(text); err == nil {
			u.User, u.RawQuery = nil, ""
			text = u.String()
		}
		_, _ = io.WriteString(sum, text+"\n") // a hash returns no error
	}
	_, _ = io.WriteString(sum, c.Redis.Prefix)
	return kind + " " + hex.EncodeToString(sum.Sum(nil)[:4])
}

// AdminCertificates returns the certificates of the admin listener, or nil without TLS, and the interval at which to
// check their files.
func (c *Config) AdminCertificates() (*certs.Set, time.Duration, error) {
	t := c.Admin.TLS
	if t == nil {
		return nil, 0, nil
	}
	files := make([]certs.Files, len(t.Certificates))
	for i := range files {
		copyFields(&files[i], t.Certificates[i])
	}
	set, err := certs.Load(files, t.ClientCAFile)
	if err != nil {
		return nil, 0, c.problemAt("admin.tls", err.Error(), "files with certificates and their keys")
	}
	return set, cmp.Or(t.CheckFilesEvery, defaultCheckFilesEvery), nil
}

// defaultCheckFilesEvery is the default of ServiceTLS.CheckFilesEvery.
const defaultCheckFilesEvery = 10 * time.Second

// AdminMinVersion returns the oldest version of TLS that the admin listener accepts.
func (c *Config) AdminMinVersion() uint16 { return uint16(c.Admin.TLS.MinVersion) }
