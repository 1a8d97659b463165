package manage

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUploadSaysHowMuchIsSentAndWhatFollows(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, 3_000_000), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	u := newUpload(f, "restoring it")
	if _, err := io.ReadFull(u, make([]byte, 1_000_000)); err != nil {
		t.Fatal(err)
	}
	if got, want := u.text(time.Second), "sent 1.0 MB of 3.0 MB, 1s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := io.Copy(io.Discard, u); err != nil {
		t.Fatal(err)
	}
	if got, want := u.text(2*time.Second), "sent 3.0 MB, restoring it, 2s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUploadIsLoggedWhileItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		u := newUpload(strings.NewReader("x"), "the rules service works")
		stop := u.show(&log)
		if _, err := io.Copy(io.Discard, u); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second) // of virtual time
		stop()
		want := "headgate: sent 0.0 MB, the rules service works, 5s\nheadgate: sent 0.0 MB, the rules service works, 10s\n"
		if log.String() != want {
			t.Errorf("got %q, want %q", log.String(), want)
		}
	})
}
