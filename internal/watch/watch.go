// Package watch tells when a file, or one of those in a directory, may have changed, however it is changed: written in
// place, replaced by an editor, or by a symbolic link that is swapped somewhere on the way to it, as Kubernetes does with
// the files of a ConfigMap.
package watch

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// The defaults of Options.
const (
	DefaultSettle = 100 * time.Millisecond
	DefaultQuiet  = time.Second
	DefaultPoll   = 10 * time.Second
)

// maxWaits is how many times Settle or Quiet a file that changes again and again is waited for.
const maxWaits = 10

// Options are the settings of File and Dir. The zero Options are good.
type Options struct {
	// Settle is how long nothing more must happen before a change is reported. Default DefaultSettle.
	Settle time.Duration
	// Quiet is Settle for a file that is written in place. It is longer, because a program that pauses in the middle of writing
	// leaves a file that may be valid and is not complete. A file that is replaced by a rename is complete at once. Default
	// DefaultQuiet, at least Settle.
	Quiet time.Duration
	// Poll is how often the file is looked at by itself, for file systems that do not tell of changes (NFS, some mounts of
	// containers). Default DefaultPoll.
	Poll time.Duration
	// Logger hears when the system cannot tell of changes. Default slog.Default().
	Logger *slog.Logger
}

// File calls changed whenever the file at path may have changed, one call after the other, until ctx ends. It calls it once
// when it has begun to watch, for what happened before, and may call it for no change. The file need not exist.
func File(ctx context.Context, path string, o Options, changed func()) error {
	return start(ctx, &watcher{options: o, changed: changed}, path)
}

// Dir is File for all files of a directory: those that are in it, that come and that go. What is in directories below does
// not count, unless a symbolic link of this one leads there.
func Dir(ctx context.Context, path string, o Options, changed func()) error {
	return start(ctx, &watcher{options: o, changed: changed, within: true}, path)
}

func start(ctx context.Context, w *watcher, path string) error {
	o := &w.options
	if o.Settle == 0 {
		o.Settle = DefaultSettle
	}
	if o.Quiet == 0 {
		o.Quiet = DefaultQuiet
	}
	o.Quiet = max(o.Quiet, o.Settle)
	if o.Poll == 0 {
		o.Poll = DefaultPoll
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	w.path, w.watched = absolute, map[string]bool{}
	if w.notify, err = fsnotify.NewWatcher(); err != nil {
		o.Logger.Warn("the system does not tell of changed files; looking at it by and by", "file", path, "every", o.Poll, "err", err)
	} else {
		defer func() { _ = w.notify.Close() }()
	}
	w.follow()
	w.seen = w.look()
	w.changed()
	w.run(ctx)
	return nil
}

type watcher struct {
	path    string
	within  bool // it is a directory, and what is in it counts
	options Options
	changed func()
	notify  *fsnotify.Watcher // nil if there is none
	steps   map[string]bool   // the links on the way to the files, and the files
	end     string            // where the way to the directory ends, if what is in it counts
	watched map[string]bool   // directories
	seen    string
}

func (w *watcher) run(ctx context.Context) {
	var events chan fsnotify.Event
	var failures chan error
	if w.notify != nil {
		events, failures = w.notify.Events, w.notify.Errors
	}
	poll := time.NewTicker(w.options.Poll)
	defer poll.Stop()
	settled := time.NewTimer(time.Hour)
	settled.Stop()
	defer settled.Stop()
	var first time.Time // when the changes began that are not reported yet; zero if there are none
	inPlace := false    // one of them was a write to a file
	wait := func() {
		now := time.Now()
		if first.IsZero() {
			first = now
		}
		span := w.options.Settle
		if inPlace {
			span = w.options.Quiet
		}
		settled.Reset(min(span, max(0, maxWaits*span-now.Sub(first))))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			// A directory that is watched tells of itself when it is moved or removed.
			if e.Op == fsnotify.Chmod || !w.steps[e.Name] && !w.watched[e.Name] && (w.end == "" || filepath.Dir(e.Name) != w.end) {
				continue
			}
			inPlace = inPlace || e.Has(fsnotify.Write)
			wait()
		case err, ok := <-failures:
			if !ok {
				failures = nil
				continue
			}
			w.options.Logger.Warn("watching a file", "file", w.path, "err", err)
		case <-settled.C:
			first, inPlace = time.Time{}, false
			w.follow()
			w.seen = w.look()
			w.changed()
		case <-poll.C:
			w.follow()
			if w.look() != w.seen && first.IsZero() {
				inPlace = true // whether it was is not known
				wait()
			}
		}
	}
}

// follow finds the steps to the files as they are now, and watches the directories that they are in.
func (w *watcher) follow() {
	w.steps, w.end = make(map[string]bool), ""
	steps(w.path, w.steps)
	if w.within {
		if end, err := filepath.EvalSymlinks(w.path); err == nil {
			w.end = end
		}
	}
	for _, path := range w.entries() {
		steps(path, w.steps)
	}
	wanted := make(map[string]bool, len(w.steps))
	for step := range w.steps {
		wanted[filepath.Dir(step)] = true
	}
	if w.end != "" {
		wanted[w.end] = true
	}
	if w.notify == nil {
		return
	}
	for dir := range w.watched {
		if !wanted[dir] {
			_ = w.notify.Remove(dir) // it may be gone
			delete(w.watched, dir)
		}
	}
	// One that is watched may have been removed and made again, so all are added each time.
	for dir := range wanted {
		if err := w.notify.Add(dir); err == nil {
			w.watched[dir] = true
		} else if w.watched[dir] {
			delete(w.watched, dir)
			w.options.Logger.Warn("cannot watch a directory any more; looking at it by and by", "directory", dir, "every", w.options.Poll, "err", err)
		}
	}
}

// maxLinks is how many symbolic links are followed, as the system does.
const maxLinks = 40

// steps adds to found the paths whose change may change what a path leads to: every symbolic link on the way, and its end.
// What does not exist is a step too, since it may come to be.
func steps(path string, found map[string]bool) {
	at := string(filepath.Separator)
	if volume := filepath.VolumeName(path); volume != "" {
		at = volume + at
	}
	rest := strings.Split(strings.TrimPrefix(path, at), string(filepath.Separator))
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		if next == at {
			continue
		}
		info, err := os.Lstat(next)
		if err != nil {
			found[next] = true
			return
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		found[next] = true
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return
		}
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(target) + string(filepath.Separator)
			target = strings.TrimPrefix(target, at)
		}
		rest = append(strings.Split(target, string(filepath.Separator)), rest...)
	}
	found[at] = true
}

// entries returns the files of a directory that count, in order; none if what is in it does not.
func (w *watcher) entries() []string {
	if w.end == "" {
		return nil
	}
	list, err := os.ReadDir(w.end)
	if err != nil {
		return nil // it is gone, which its parent tells
	}
	var paths []string
	for _, entry := range list {
		if !entry.IsDir() {
			paths = append(paths, filepath.Join(w.end, entry.Name()))
		}
	}
	return paths
}

// look returns what the file, or the files of the directory, look like from outside.
func (w *watcher) look() string {
	seen := look(w.path)
	for _, path := range w.entries() {
		seen += "\n" + path + "\t" + look(path)
	}
	return seen
}

func look(path string) string {
	end, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	info, err := os.Stat(end)
	if err != nil {
		return ""
	}
	if info.IsDir() {
		return end // what is in it is looked at one by one
	}
	return fmt.Sprint(end, "\t", info.Size(), "\t", info.ModTime().UnixNano())
}
