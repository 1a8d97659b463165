package main

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestImportProgressShowsClientsSent(t *testing.T) {
	now := time.Unix(0, 0)
	tick := func() time.Time { now = now.Add(time.Second); return now }
	var shown strings.Builder
	lines := strings.Repeat("{\"id\":\"a\"}\n", 12)
	progress := newImportProgress(iotest.OneByteReader(strings.NewReader(lines)), &shown, tick)
	got, err := io.ReadAll(progress)
	if err != nil || string(got) != lines {
		t.Fatalf("got %q, %v, want the same lines", got, err)
	}
	if want := "headgate: sent 0 clients in 5s\nheadgate: sent 0 clients in 10s\nheadgate: sent 1 client in 15s\n"; !strings.HasPrefix(shown.String(), want) {
		t.Errorf("got %q, want it to begin with %q", shown.String(), want)
	}
	shown.Reset()
	progress.terminal = true
	progress.show(2 * time.Second)
	progress.clear()
	if got, want := shown.String(), "\r\x1b[Ksent 12 clients in 2s\r\x1b[K"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
