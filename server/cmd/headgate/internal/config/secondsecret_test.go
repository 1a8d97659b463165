package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecondSecretNeedsAnotherFirst(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second := write("first", "the first secret of this test"), write("second", "the second secret of this test")
	for _, tt := range []struct{ first, second, want string }{
		{"", second, "given without key_secret_file"},
		{first, first, "the same secret"},
		{first, write("short", "short"), "5 bytes"},
	} {
		_, err := (&Config{KeySecretFile: tt.first, SecondSecretFile: tt.second}).SecondSecret()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q in it", err, tt.want)
		}
	}
	got, err := (&Config{KeySecretFile: first, SecondSecretFile: second}).SecondSecret()
	if err != nil || string(got) != "the second secret of this test" {
		t.Errorf("got %q, %v", got, err)
	}
}
