package config

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/headgate/headgate/control/follow"
	"github.com/headgate/headgate/control/remote"
	"github.com/headgate/headgate/internal/certs"
	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/internal/secretfile"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/service"
)

// RulesService says more of the rules service, be it in this process or the one at Control.
type RulesService struct {
	Poll           time.Duration  `field:"poll" default:"10s" doc:"How often a node polls for rules besides the push, 1s to 10m."`
	CAFile         string         `field:"ca_file" doc:"CA certificates for the rules service at control, and for nodes that the rules service asks about clients, in PEM. Default: the system's."`
	Address        string         `field:"address" doc:"Where the rules service, or another instance of it, reaches admin_addr of this node to ask about clients, such as http://10.0.0.7:8084. Default: admin_addr; if that is all addresses, the source address of heartbeats."`
	HookSecretFile string         `field:"hook_secret_file" doc:"A file with the secret of a webhook of the rules service at control: with it, POST /v1/hooks/rules on admin_addr makes this node poll at once. Default: none; the path does not exist."`
	HookNetworks   []netip.Prefix `field:"hook_networks" doc:"Private networks to which the rules service may send webhooks, such as 10.0.0.0/8. Default: none."`
	KeepHistory    Span           `field:"keep_history" default:"8760h" doc:"How long changes stay in the history, or off for unlimited. The current state and the last change of each rule always stay."`
}

// DefaultKeepHistory is a year.
const DefaultKeepHistory = 8760 * time.Hour

// Admin is for the listener of admin_addr.
type Admin struct {
	Hosts              []string    `field:"hosts" doc:"Names by which admin_addr may be called, such as rules.example.com, *.example.com for all subdomains, or * for all; others are refused, except localhost, IP addresses and the node's own name. Default: any, except for browsers that use a public name without TLS."`
	MaxConns           int         `field:"max_conns" default:"20000" doc:"The most connections at once, as service.max_conns. Nodes that follow the rules service have one each."`
	MaxConnsPerAddress Count       `field:"max_conns_per_address" doc:"How many of max_conns one address may have, or off. It does not apply to trusted_proxies and Unix sockets. Default: a quarter of max_conns, but at least 64."`
	TLS                *ServiceTLS `field:"tls" doc:"Certificates, and which callers are accepted. Default: no TLS."`
}

// AdminMaxConns returns how many connections the admin listener may have.
func (c *Config) AdminMaxConns() int { return cmp.Or(c.Admin.MaxConns, service.DefaultMaxConns) }

// A Mode is where the rules of a node come from.
type Mode int

// The modes.
const (
	FromDatabase Mode = iota // of the rules service in this process
	FromFile
	FromControl // of a rules service elsewhere
)

// Mode returns where the rules come from.
func (c *Config) Mode() Mode {
	switch {
	case c.Rules != "":
		return FromFile
	case c.Control != "":
		return FromControl
	}
	return FromDatabase
}

// checkRules refuses two truths.
func (c *Config) checkRules() error {
	if c.Rules == "" {
		return nil
	}
	for _, other := range []struct{ name, value, why string }{
		{"control", c.Control, "one of them"},
		{"db", c.DB, "one of them: with a rules file there is no database. A database that follows a file is --db-follows"},
		{"db-follows", c.DBFollows, "one of them"},
	} {
		if other.value != "" {
			return &complaint{"given as well as " + c.Where(other.name), other.why}
		}
	}
	return nil
}

func (c *Config) checkControl() error {
	if c.Control == "" {
		return nil
	}
	for _, other := range []struct{ name, value string }{{"db", c.DB}, {"db-follows", c.DBFollows}} {
		if other.value != "" {
			return &complaint{"given as well as " + c.Where(other.name), "one of them: a node of a rules service elsewhere has no database"}
		}
	}
	network, path := conns.Split(c.Control)
	u, err := url.Parse(c.Control)
	if network == "unix" {
		if path == "" {
			return bad(c.Control, "a path after unix:")
		}
	} else if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return &complaint{"no such rules service", "a URL such as https://rules.example.com:8084, and the token in --token-file"}
	}
	if c.TokenFile == "" {
		return &complaint{"given without --token-file", "a file with a token of the role node: headgate tokens create --role node"}
	}
	return nil
}

// checkTokenFile refuses a token that nobody is shown. The variable is also that of commands that talk to a rules service, so that it may be
// there for them.
func (c *Config) checkTokenFile() error {
	if c.TokenFile != "" && c.Control == "" && !c.origins["token-file"].variable() {
		return &complaint{"given without --control", "the URL of a rules service that is shown the token"}
	}
	return nil
}

func (c *Config) checkDB() error {
	scheme, _, isURL := strings.Cut(c.DB, "://")
	if scheme = strings.ToLower(scheme); !isURL || scheme == "sqlite" || strings.HasPrefix(scheme, "postgres") {
		return nil
	}
	for _, known := range storeSchemes {
		if scheme+"://" == known {
			return nil
		}
	}
	// What stands there may have a password in it.
	return &complaint{"no such database", "a file, or a URL that begins with postgres://, redis://, rediss://, redis-cluster:// or redis-sentinel://"}
}

func (c *Config) checkDBFollows() error {
	if c.DBFollows == "" {
		return nil
	}
	if info, err := os.Stat(c.DBFollows); err == nil && info.IsDir() {
		return &complaint{"a directory", "a file"}
	}
	return nil
}

// checkRulesService checks what packages would refuse, to say where it stands.
func (c *Config) checkRulesService() error {
	s := &c.RulesService
	if s.Poll != 0 && (s.Poll < time.Second || s.Poll > 10*time.Minute) {
		return c.at("rules_service.poll", s.Poll.String(), "1s to 10m")
	}
	if s.KeepHistory != 0 && s.KeepHistory != SpanOff && s.KeepHistory.Duration() < time.Hour {
		return c.at("rules_service.keep_history", s.KeepHistory.String(), "at least 1h, or off")
	}
	if u, err := url.Parse(s.Address); s.Address != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "") {
		return c.at("rules_service.address", "no such address", "http://HOST:PORT or https://HOST:PORT, and nothing else")
	}
	if s.HookSecretFile != "" && c.Mode() != FromControl {
		return c.at("rules_service.hook_secret_file", "given without control", "the URL of the rules service that sends the webhooks")
	}
	for i, host := range c.Admin.Hosts {
		if name := strings.TrimPrefix(host, "*"); host != "*" && (strings.Trim(name, ".") == "" || name != host && name[0] != '.' || strings.ContainsAny(name, "*:/@[] \t")) {
			return c.at(fmt.Sprintf("admin.hosts[%d]", i), rules.Quote(host), "a name without port, such as rules.example.com or *.example.com, or *")
		}
	}
	if t := c.Admin.TLS; t != nil && len(t.Certificates) == 0 {
		return c.at("admin.tls", "no certificates", "certificates: [{ cert_file: tls.crt, key_file: tls.key }]")
	}
	return nil
}

// PollEvery returns how often rules are asked for.
func (c *Config) PollEvery() time.Duration { return cmp.Or(c.RulesService.Poll, follow.DefaultPoll) }

// KeepHistory returns how long changes are kept, 0 for ever.
func (c *Config) KeepHistory() time.Duration {
	switch c.RulesService.KeepHistory {
	case SpanOff:
		return 0
	case 0:
		return DefaultKeepHistory
	}
	return c.RulesService.KeepHistory.Duration()
}

// ControlNamespace returns whose rules are taken of a rules service.
func (c *Config) ControlNamespace() string { return cmp.Or(c.Namespace, remote.DefaultNamespace) }

// RemoteConfig returns how to call the rules service at Control.
func (c *Config) RemoteConfig(version string) (remote.Config, error) {
	made := remote.Config{
		URL: c.Control, Namespace: c.ControlNamespace(), UserAgent: "headgate/" + version,
		TokenFrom: func() (string, error) { return readLine(c.TokenFile) },
	}
	if _, err := made.TokenFrom(); err != nil {
		return made, fmt.Errorf("%s: %w", c.Where("token-file"), err)
	}
	var err error
	made.TLS, err = c.RulesServiceTLS()
	return made, err
}

// RulesServiceTLS returns whom to believe that they are the rules service, or a node of it; nil as the system does.
func (c *Config) RulesServiceTLS() (*tls.Config, error) {
	if c.RulesService.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.RulesService.CAFile)
	if err != nil {
		return nil, c.at("rules_service.ca_file", err.Error(), "a file with certificates in PEM")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, c.at("rules_service.ca_file", "no certificate in it", "a file with certificates in PEM")
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// Counters names the store that nodes count in together, without secrets; empty if this one counts in memory. Nodes that call one
// store by two names are taken for nodes of two, which costs a question and no more.
func (c *Config) Counters() string {
	kind, _, ok := strings.Cut(c.Store, "://")
	if c.Store == StoreMemory || !ok {
		return ""
	}
	sum := sha256.New()
	for _, text := range []string{c.Store, c.GlobalStore} {
		if u, err := url.Parse(text); err == nil { // the stores have been opened
			u.User, u.RawQuery = nil, ""
			text = u.String()
		}
		_, _ = io.WriteString(sum, text+"\n") // it cannot fail
	}
	_, _ = io.WriteString(sum, c.Redis.Prefix)
	return kind + " " + hex.EncodeToString(sum.Sum(nil)[:4])
}

// HookSecret returns the secret of the webhook that this node takes, nil if it takes none.
func (c *Config) HookSecret() ([]byte, error) {
	if c.RulesService.HookSecretFile == "" {
		return nil, nil
	}
	secret, err := readLine(c.RulesService.HookSecretFile)
	if err != nil {
		return nil, c.at("rules_service.hook_secret_file", err.Error(), "a file with one line")
	}
	return []byte(secret), nil
}

// AdminToken returns the token that may do everything, empty if there is none but those of the database.
func (c *Config) AdminToken() (string, error) {
	if c.AdminTokenFile == "" {
		return "", nil
	}
	token, err := readLine(c.AdminTokenFile)
	if err == nil && len(token) < service.MinToken {
		err = fmt.Errorf("%s: %d characters are too few: want at least %d, better 32 by chance", c.AdminTokenFile, len(token), service.MinToken)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.Where("admin-token-file"), err)
	}
	return token, nil
}

// maxLine is the most bytes of a secret of one line.
const maxLine = 4096

// readLine returns the one line of a file.
func readLine(path string) (string, error) {
	data, err := secretfile.Read(path)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if text == "" || len(text) > maxLine || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("%s: want one line of letters, digits and signs", path)
	}
	return text, nil
}

// AdminCertificates returns those of the admin listener, nil if it has none, and how often to look at their files.
func (c *Config) AdminCertificates() (*certs.Set, time.Duration, error) {
	t := c.Admin.TLS
	if t == nil {
		return nil, 0, nil
	}
	files := make([]certs.Files, len(t.Certificates))
	for i := range files {
		adopt(&files[i], t.Certificates[i])
	}
	set, err := certs.Load(files, t.ClientCAFile)
	if err != nil {
		return nil, 0, c.at("admin.tls", err.Error(), "files that hold certificates and their keys")
	}
	return set, cmp.Or(t.CheckFiles, defaultCheckFiles), nil
}

const defaultCheckFiles = 10 * time.Second

// AdminMinVersion returns the oldest version of TLS that the admin listener speaks.
func (c *Config) AdminMinVersion() uint16 { return uint16(c.Admin.TLS.MinVersion) }

// Variables by which systems say where to keep state.
const (
	stateDirectory = "STATE_DIRECTORY" // of systemd
	xdgState       = "XDG_STATE_HOME"
	home           = "HOME"
	localAppData   = "LOCALAPPDATA" // of Windows
)

// systemPlaces returns what the environment says of where to keep things.
func systemPlaces(environ []string) map[string]string {
	places := map[string]string{}
	for _, pair := range environ {
		switch name, value, _ := strings.Cut(pair, "="); name {
		case stateDirectory, xdgState, home, localAppData:
			places[name] = value
		}
	}
	return places
}

var errNoState = errors.New("there is no directory for state; give one with --data-dir")

// StateDir returns where this process keeps what should outlive it. It may not be there yet.
func (c *Config) StateDir() (string, error) {
	if c.DataDir != "" {
		return c.DataDir, nil
	}
	first, _, _ := strings.Cut(c.environ[stateDirectory], ":")
	for _, place := range []struct{ dir, below string }{
		{first, ""},
		{c.environ[xdgState], "headgate"},
		{windowsOnly(c.environ[localAppData]), "headgate"},
		{c.environ[home], filepath.Join(".local", "state", "headgate")},
	} {
		if filepath.IsAbs(place.dir) {
			return filepath.Join(place.dir, place.below), nil
		}
	}
	return "", errNoState
}

func windowsOnly(dir string) string {
	if runtime.GOOS == "windows" {
		return dir
	}
	return ""
}
