package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/service"
)

// Anyone on the host could choose such a secret.
func TestWorldWritableSecretFilesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	readers := map[string]func() error{
		"key-secret-file":  func() error { _, err := (&Config{KeySecretFile: path}).Secret(); return err },
		"gossip-key-file":  func() error { _, err := (&Config{GossipKeyFile: path}).GossipKey(); return err },
		"admin-token-file": func() error { _, err := (&Config{AdminTokenFile: path}).AdminToken(); return err },
		"api-token-file":   func() error { _, err := service.ReadToken(path); return err },
		"token-file":       func() error { _, err := ReadLine(path); return err },
	}
	for name, read := range readers {
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := read(); err != nil {
			t.Errorf("%s, 0600: %v", name, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := read(); err == nil || !strings.Contains(err.Error(), "written by everybody") {
			t.Errorf("%s, 0666: error %v, want that everybody can write it", name, err)
		}
	}
}

// Anyone on the host could choose where the node takes its secrets and its rules from.
func TestWorldWritableConfigurationIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	if err := os.WriteFile(path, []byte("store: redis://:a-password@cache:6379\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		mode os.FileMode
		want string
	}{
		{0o600, ""},
		{0o640, ""},
		{0o644, ""},
		{0o660, ""},
		{0o666, "HEADGATE_CONFIG: read the configuration: " + path + " can be written by everybody (-rw-rw-rw-): want 0600"},
	} {
		if err := os.Chmod(path, tt.mode); err != nil {
			t.Fatal(err)
		}
		_, _, err := Load(Inputs{Environ: []string{"HEADGATE_CONFIG=" + path}})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%v: got %v, want %q", tt.mode, err, tt.want)
		}
	}
}
