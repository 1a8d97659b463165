package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// No request could match such a client, so it would be neither limited nor blocked.
func TestClientsWithAnotherPrefixLengthAreRefused(t *testing.T) {
	for _, tt := range []struct {
		ip, config, want string // want is empty if it is right
	}{
		{"192.0.2.1", "", ""},
		{"192.0.2.1/32", "", ""},
		{"::ffff:192.0.2.1", "", ""},
		{"2001:db8::/64", "", ""},
		{"192.0.2.0/24", "identity: { ipv4_prefix: 24 }", ""},
		{"2001:db8::1", "identity: { ipv6_prefix: 128 }", ""},
		{"10.0.0.0/8", "", "of 32 bits (identity.ipv4_prefix)"},
		{"2001:db8::1", "", "want 2001:db8::/64"},
		{"2001:db8::/48", "", "of 64 bits (identity.ipv6_prefix)"},
		{"192.0.2.1", "identity: { ipv4_prefix: 24 }", "want 192.0.2.0/24"},
	} {
		t.Run(tt.ip+" "+tt.config, func(t *testing.T) {
			dir := t.TempDir()
			flags := map[string]string{"rules": filepath.Join(dir, "rules.yaml")}
			files := map[string]string{
				flags["rules"]: "rules:\n  - { id: all, key: ip, limits: 9/s }\nclients:\n  - { id: mallory, block: true, attributes: { ip: \"" + tt.ip + "\" } }\n",
			}
			if tt.config != "" {
				flags["config"] = filepath.Join(dir, "headgate.yaml")
				files[flags["config"]] = tt.config + "\n"
			}
			for path, text := range files {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := load(t, flags)
			n, err := Open(context.Background(), c, Options{Logger: quiet()})
			if n != nil {
				defer func() { _ = n.close() }()
			}
			if tt.want != "" {
				if !errors.Is(err, rules.ErrInvalid) || !strings.Contains(err.Error(), "rules.yaml:4:") || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q with its place", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			// What is let through is somebody: the address is that client.
			ip, _, _ := strings.Cut(tt.ip, "/")
			var who identity.Attributes
			if err := n.identity.ReadValues(identity.Values{IP: ip}, &who); err != nil {
				t.Fatal(err)
			}
			if m, _ := n.engine.Rules().MatchRule("all", &who); m.Effect != match.Blocked {
				t.Errorf("%s: got %v, want blocked", ip, m.Effect)
			}
		})
	}
}
