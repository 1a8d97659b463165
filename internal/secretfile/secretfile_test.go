package secretfile

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestFilesThatEverybodyCanWriteAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no such mode")
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("a secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, refused := range map[os.FileMode]bool{
		0o600: false, 0o400: false, 0o640: false, 0o644: false, 0o660: false, 0o666: true, 0o602: true, 0o622: true, 0o777: true,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		data, err := Read(path)
		if refused != (err != nil) || refused != (Check(path) != nil) {
			t.Errorf("%v: Read = %v, Check = %v, want refused %v", mode, err, Check(path), refused)
		}
		if refused && (!strings.Contains(err.Error(), "chmod 600") || data != nil) {
			t.Errorf("%v: got %q, %v, want nothing and the cure", mode, data, err)
		}
		if !refused && string(data) != "a secret\n" {
			t.Errorf("%v: got %q, want the content", mode, data)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("no file: %v, want that it does not exist", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), maxBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil {
		t.Error("a huge file: no error")
	}
	if _, err := Read(os.DevNull); err != nil {
		t.Errorf("a device: %v, want none", err)
	}
}
