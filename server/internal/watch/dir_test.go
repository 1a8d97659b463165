package watch_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/internal/watch"
)

// startDir watches a directory, and reads all its files each time that a change is reported.
func startDir(t *testing.T, path string, poll time.Duration) *watched {
	t.Helper()
	w := &watched{t: t, path: path}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	watching := make(chan struct{}, 1)
	go func() {
		done <- watch.Dir(ctx, path, watch.Options{Settle: settle, SettleInPlace: settle, Poll: poll}, func() {
			w.told.Add(1)
			text := readAll(path)
			w.last.Store(&text)
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

// readAll returns the texts of all files of a directory that do not begin with a dot.
func readAll(dir string) string {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "error"
	}
	var texts []string
	for _, entry := range list {
		if entry.Name()[0] == '.' {
			continue
		}
		if data, err := os.ReadFile(filepath.Join(dir, entry.Name())); err == nil {
			texts = append(texts, string(data))
		}
	}
	return strings.Join(texts, " ")
}

func TestAddedChangedAndRemovedFilesAreReported(t *testing.T) {
	t.Parallel()
	for name, poll := range map[string]time.Duration{"told": time.Hour, "looked at": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a"), "one")
			w := startDir(t, dir, poll)
			w.until("one two", func() { write(t, filepath.Join(dir, "b"), "two") })
			w.until("one three", func() { write(t, filepath.Join(dir, "b"), "three") })
			w.until("four three", func() {
				write(t, filepath.Join(dir, ".a~"), "four")
				rename(t, filepath.Join(dir, ".a~"), filepath.Join(dir, "a"))
			})
			w.until("four", func() {
				if err := os.Remove(filepath.Join(dir, "b")); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestSwappedConfigMapDirectoryIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(mkdir(t, filepath.Join(dir, "..1")), "a"), "one")
	link(t, "..1", filepath.Join(dir, "..data"))
	link(t, filepath.Join("..data", "a"), filepath.Join(dir, "a"))
	w := startDir(t, dir, time.Hour)
	for _, text := range []string{"two", "three", "four"} {
		w.until(text, func() {
			write(t, filepath.Join(mkdir(t, filepath.Join(dir, ".."+text)), "a"), text)
			link(t, ".."+text, filepath.Join(dir, "..next"))
			rename(t, filepath.Join(dir, "..next"), filepath.Join(dir, "..data"))
		})
	}
	// the target of a link in the directory is watched, too
	w.until("five", func() { write(t, filepath.Join(dir, "..four", "a"), "five") })
}

func TestLinkedAndLateDirectoriesAreWatched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(mkdir(t, filepath.Join(dir, "first")), "a"), "one")
	write(t, filepath.Join(mkdir(t, filepath.Join(dir, "second")), "a"), "two")
	path := filepath.Join(dir, "current")
	w := startDir(t, path, time.Hour)
	if got := *w.last.Load(); got != "error" {
		t.Fatalf("got %q before there is anything, want an error", got)
	}
	w.until("one", func() { link(t, "first", path) })
	w.until("uno", func() { write(t, filepath.Join(dir, "first", "a"), "uno") })
	w.until("two", func() {
		link(t, "second", path+"~")
		rename(t, path+"~", path)
	})
	w.until("dos", func() { write(t, filepath.Join(dir, "second", "a"), "dos") })
}
