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
