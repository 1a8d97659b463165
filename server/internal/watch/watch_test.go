package watch_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/server/internal/watch"
)

// A watched is a file that is watched during a test. It has the texts that were read after each reported change.
type watched struct {
	t    *testing.T
	path string
	last atomic.Pointer[string]
	told atomic.Int64
}

// settle is the Settle of tests: the time without changes before a change is reported.
const settle = 10 * time.Millisecond

// start watches a path. Tests depend on the system's notifications: the file is polled only if poll says so.
func start(t *testing.T, path string, poll time.Duration) *watched {
	t.Helper()
	w := &watched{t: t, path: path}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	watching := make(chan struct{}, 1)
	go func() {
		done <- watch.File(ctx, path, watch.Options{Settle: settle, SettleInPlace: settle, Poll: poll}, func() {
			w.changed()
			select {
			case watching <- struct{}{}:
			default:
			}
		})
	}()
	<-watching
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *watched) changed() {
	w.told.Add(1)
	data, err := os.ReadFile(w.path)
	text := string(data)
	if err != nil {
		text = "error"
	}
	w.last.Store(&text)
}

// until makes a change, and waits until the watcher has reported it and the wanted text was read.
func (w *watched) until(want string, change func()) {
	w.t.Helper()
	change()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if got := w.last.Load(); got != nil && *got == want {
			return
		}
	}
	got := "nothing"
	if last := w.last.Load(); last != nil {
		got = *last
	}
	w.t.Fatalf("got %q, want %q; %d changes reported", got, want, w.told.Load())
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFileWrittenInPlaceIsReported(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, "one")
	w := start(t, path, time.Hour)
	w.until("two", func() { write(t, path, "two") })
	w.until("three", func() { write(t, path, "three") })
}

func TestReplacedFileIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	write(t, path, "one")
	w := start(t, path, time.Hour)
	for _, text := range []string{"two", "three", "four"} { // the watch must follow the new file each time
		w.until(text, func() {
			write(t, path+"~", text)
			rename(t, path+"~", path)
		})
	}
}

func TestCreatedFileIsReported(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	w := start(t, path, time.Hour)
	w.until("one", func() { write(t, path, "one") })
}

func TestRecreatedFileIsReported(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, "one")
	w := start(t, path, time.Hour)
	w.until("error", func() {
		write(t, path, "again")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	})
	w.until("two", func() { write(t, path, "two") })
}

// In a ConfigMap of Kubernetes, rules.yaml links to ..data/rules.yaml, and ..data links to ..2026_01. A change renames a
// new ..data over the old one.
func TestSwappedConfigMapFileIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := func(name, text string) {
		write(t, filepath.Join(mkdir(t, filepath.Join(dir, name)), "rules.yaml"), text)
	}
	version("..1", "one")
	link(t, "..1", filepath.Join(dir, "..data"))
	path := filepath.Join(dir, "rules.yaml")
	link(t, filepath.Join("..data", "rules.yaml"), path)
	w := start(t, path, time.Hour)
	for i, text := range []string{"two", "three", "four"} {
		name := "..v" + string(rune('2'+i))
		version(name, text)
		w.until(text, func() {
			link(t, name, filepath.Join(dir, "..data_tmp"))
			rename(t, filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data"))
		})
	}
}

func TestSwappedParentDirectoryIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, release := range []string{"1", "2"} {
		write(t, filepath.Join(mkdir(t, filepath.Join(dir, "releases", release, "etc")), "rules.yaml"), "release "+release)
	}
	current := filepath.Join(dir, "current")
	link(t, filepath.Join("releases", "1"), current)
	w := start(t, filepath.Join(current, "etc", "rules.yaml"), time.Hour)
	w.until("release 2", func() {
		link(t, filepath.Join("releases", "2"), current+"_new")
		rename(t, current+"_new", current)
	})
	path := filepath.Join(dir, "releases", "2", "etc", "rules.yaml")
	w.until("edited", func() { write(t, path, "edited") })
}

func TestReplacedDirectoryIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(mkdir(t, filepath.Join(dir, "conf")), "rules.yaml")
	write(t, path, "one")
	w := start(t, path, time.Hour)
	for _, text := range []string{"two", "three"} {
		write(t, filepath.Join(mkdir(t, filepath.Join(dir, "new")), "rules.yaml"), text)
		w.until(text, func() {
			rename(t, filepath.Join(dir, "conf"), filepath.Join(dir, "before "+text))
			rename(t, filepath.Join(dir, "new"), filepath.Join(dir, "conf"))
		})
	}
	w.until("in place", func() { write(t, path, "in place") })
}

func TestLinkedFileIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := filepath.Join(mkdir(t, filepath.Join(dir, "elsewhere")), "target.yaml")
	write(t, target, "one")
	path := filepath.Join(mkdir(t, filepath.Join(dir, "etc")), "rules.yaml")
	link(t, target, path)
	w := start(t, path, time.Hour)
	w.until("two", func() { write(t, target, "two") })
}

func TestRecreatedDirectoryIsFoundByPolling(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "etc")
	path := filepath.Join(mkdir(t, dir), "rules.yaml")
	write(t, path, "one")
	w := start(t, path, 20*time.Millisecond)
	w.until("two", func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(mkdir(t, dir), "rules.yaml"), "two")
	})
}

func TestOtherFilesAreNotReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	write(t, path, "one")
	w := start(t, path, time.Hour)
	w.until("two", func() { write(t, path, "two") })
	before := w.told.Load()
	for range 100 {
		write(t, filepath.Join(dir, "other.yaml"), "other")
	}
	w.until("three", func() { write(t, path, "three") }) // all earlier changes were reported
	if got := w.told.Load() - before; got > 5 {
		t.Errorf("got %d reports, want one or two for each write of the watched file", got)
	}
}

func TestManyWritesAreReportedOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, "one")
	w := start(t, path, time.Hour)
	w.until("two", func() { write(t, path, "two") })
	before, begun := w.told.Load(), time.Now()
	for range 1000 {
		write(t, path, "busy")
	}
	w.until("busy", func() { write(t, path, "busy") })
	// On a busy machine, writes may be so far apart that some are reported one by one.
	if got, most := w.told.Load()-before, 2+int64(time.Since(begun)/settle); got > most {
		t.Errorf("got %d reports of 1000 writes, want at most %d", got, most)
	}
}

// A program that pauses between two writes leaves a file that may be valid but incomplete.
func TestAHalfWrittenFileIsNotReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "before")
	ctx, cancel := context.WithCancel(context.Background())
	reports := make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		done <- watch.File(ctx, path, watch.Options{Settle: settle, SettleInPlace: 500 * time.Millisecond, Poll: time.Hour}, func() {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			}
			reports <- string(data)
		})
	}()
	if got := <-reports; got != "before" {
		t.Fatalf("at the start: got %q, want %q", got, "before")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	pauses := time.NewTicker(100 * time.Millisecond) // longer than Settle, shorter than SettleInPlace
	defer pauses.Stop()
	for _, part := range []string{"one", ", two", ", three"} {
		if _, err := f.WriteString(part); err != nil {
			t.Fatal(err)
		}
		want += part
		<-pauses.C
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-reports; got != want {
		t.Errorf("got a report of %q, want only that of %q", got, want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
