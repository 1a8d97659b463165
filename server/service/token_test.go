package service_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/service"
)

const secret = "0123456789abcdef"

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTokenIsOneLineOfAFile(t *testing.T) {
	for _, text := range []string{secret, secret + "\n", "  " + secret + "\r\n\n"} {
		token, err := service.ReadToken(write(t, text, 0o600))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if !token.Is(secret) || token.Warning() != "" {
			t.Errorf("%q: got %t and %q, want the token and no warning", text, token.Is(secret), token.Warning())
		}
	}
}

func TestInvalidTokenFilesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "0 characters are too few: want one line of at least 16",
		"short\n":                   "5 characters are too few",
		secret + "\n" + secret:      "character 17 cannot be sent in a header",
		"key with spaces in it":     "character 4 cannot be sent",
		secret + "é":                "character 17 cannot be sent",
		strings.Repeat("x", 5000):   "more than 4096 characters",
		strings.Repeat("x", 100000): "more than 4096 characters",
	} {
		_, err := service.ReadToken(write(t, text, 0o600))
		if !errors.Is(err, service.ErrToken) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %s", text, err, want)
		}
	}
	if _, err := service.ReadToken(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that there is no such file", err)
	}
}

func TestWorldReadableTokenWarns(t *testing.T) {
	token, err := service.ReadToken(write(t, secret, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	if got := token.Warning(); !strings.Contains(got, "can be read by everybody (-rw-r--r--): set its mode to 0600") {
		t.Errorf("got %q", got)
	}
}

func TestOnlyTheTokenIsTheToken(t *testing.T) {
	token, err := service.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	for presented, want := range map[string]bool{
		secret: true, "": false, secret + " ": false, secret[1:]: false, strings.ToUpper(secret): false, secret + secret: false,
		strings.Repeat("x", 1<<20): false,
	} {
		if got := token.Is(presented); got != want {
			t.Errorf("%.40q: got %t, want %t", presented, got, want)
		}
	}
}

func TestNilTokenAcceptsEveryCaller(t *testing.T) {
	var token *service.Token
	if !token.Is("") || !token.Is("x") || token.Warning() != "" {
		t.Error("a nil token asks for something")
	}
}

func TestTokenIsComparedWithoutAllocation(t *testing.T) {
	token, err := service.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.Repeat("x", 64)
	if n := testing.AllocsPerRun(100, func() { token.Is(shown) }); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}
