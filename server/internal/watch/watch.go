// Package watch reports when a file, or a file in a directory, may have changed. It notices files that are written in
// place, files that are replaced, and symbolic links on the path that are replaced, as Kubernetes does for a ConfigMap.
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
	DefaultSettle        = 100 * time.Millisecond
	DefaultSettleInPlace = time.Second
	DefaultPoll          = 10 * time.Second
)

// maxWaits limits the wait for a file that keeps changing, as a multiple of Settle or SettleInPlace.
const maxWaits = 10

// Options configure File and Dir. The zero Options are good for most uses.
type Options struct {
	// Settle is the time without further changes before a change is reported. Default DefaultSettle.
	Settle time.Duration
	// SettleInPlace replaces Settle for a file that is written in place. It is longer, because while a program pauses
	// between two writes, the file may be valid but incomplete. A file that is replaced by a rename is complete
	// immediately. Default DefaultSettleInPlace, but at least Settle.
	SettleInPlace time.Duration
	// Poll is the time between two checks of the file, for file systems without change notifications (NFS, some container
	// mounts). Default DefaultPoll.
	Poll time.Duration
	// Logger logs when change notifications do not work. Default slog.Default().
	Logger *slog.Logger
}

// File calls changed whenever the file at path may have changed, until ctx ends. It makes one call at a time. The first
// call is when the watch begins, for earlier changes. There may be calls without a change. The file need not exist.
func File(ctx context.Context, path string, o Options, changed func()) error {
	return start(ctx, &watcher{options: o, changed: changed}, path)
}

// Dir does the same as File for all files in a directory, including added and removed files. It ignores subdirectories,
// unless a symbolic link in the directory points into one.
func Dir(ctx context.Context, path string, o Options, changed func()) error {
	return start(ctx, &watcher{options: o, changed: changed, isDir: true}, path)
}

func start(ctx context.Context, w *watcher, path string) error {
	o := &w.options
	if o.Settle == 0 {
		o.Settle = DefaultSettle
	}
	if o.SettleInPlace == 0 {
		o.SettleInPlace = DefaultSettleInPlace
	}
	o.SettleInPlace = max(o.SettleInPlace, o.Settle)
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
		o.Logger.Warn("no file change notifications, polling instead", "file", path, "every", o.Poll, "err", err)
	} else {
		defer func() { _ = w.notify.Close() }()
	}
	w.updateSteps()
	w.seen = w.fingerprint()
	w.changed()
	w.run(ctx)
	return nil
}

type watcher struct {
	path    string
	isDir   bool // path is a directory whose files are watched
	options Options
	changed func()
	notify  *fsnotify.Watcher // nil if there is none
	steps   map[string]bool   // the symbolic links on the paths to the files, and the files
	dir     string            // the resolved directory, if isDir is set
	watched map[string]bool   // directories for which notify sends events
	seen    string            // the fingerprint at the last call of changed
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
	var firstChange time.Time // time of the first unreported change; zero if there is none
	inPlace := false          // one of the changes was a write to a file
	wait := func() {
		now := time.Now()
		if firstChange.IsZero() {
			firstChange = now
		}
		settle := w.options.Settle
		if inPlace {
			settle = w.options.SettleInPlace
		}
		settled.Reset(min(settle, max(0, maxWaits*settle-now.Sub(firstChange))))
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
			// A watched directory reports its own move or removal.
			if e.Op == fsnotify.Chmod || !w.steps[e.Name] && !w.watched[e.Name] &&
				(w.dir == "" || filepath.Dir(e.Name) != w.dir) {
				continue
			}
			inPlace = inPlace || e.Has(fsnotify.Write)
			wait()
		case err, ok := <-failures:
			if !ok {
				failures = nil
				continue
			}
			w.options.Logger.Warn("file watch failed", "file", w.path, "err", err)
		case <-settled.C:
			firstChange, inPlace = time.Time{}, false
			w.updateSteps()
			w.seen = w.fingerprint()
			w.changed()
		case <-poll.C:
			w.updateSteps()
			if w.fingerprint() != w.seen && firstChange.IsZero() {
				inPlace = true // the file may have been written in place
				wait()
			}
		}
	}
}

// updateSteps updates w.steps to the current paths of the files, and watches the directories of these paths.
func (w *watcher) updateSteps() {
	w.steps, w.dir = make(map[string]bool), ""
	steps(w.path, w.steps)
	if w.isDir {
		if end, err := filepath.EvalSymlinks(w.path); err == nil {
			w.dir = end
		}
	}
	for _, path := range w.entries() {
		steps(path, w.steps)
	}
	wanted := make(map[string]bool, len(w.steps))
	for step := range w.steps {
		wanted[filepath.Dir(step)] = true
	}
	if w.dir != "" {
		wanted[w.dir] = true
	}
	if w.notify == nil {
		return
	}
	for dir := range w.watched {
		if !wanted[dir] {
			_ = w.notify.Remove(dir) // fails if the directory was removed
			delete(w.watched, dir)
		}
	}
	// A watched directory may have been removed and created again, so add all directories each time.
	for dir := range wanted {
		if err := w.notify.Add(dir); err == nil {
			w.watched[dir] = true
		} else if w.watched[dir] {
			delete(w.watched, dir)
			w.options.Logger.Warn("cannot watch a directory anymore, polling instead",
				"directory", dir, "every", w.options.Poll, "err", err)
		}
	}
}

// maxLinks is the maximum number of symbolic links to follow. Linux has the same limit.
const maxLinks = 40

// steps adds the steps of a path to found. A change of a step may change the target of the path. The steps are the
// symbolic links on the path and the file at its end. A missing file is a step too, because it may be created.
func steps(path string, found map[string]bool) {
	dir := string(filepath.Separator)
	if volume := filepath.VolumeName(path); volume != "" {
		dir = volume + dir
	}
	rest := strings.Split(strings.TrimPrefix(path, dir), string(filepath.Separator))
	for links := 0; len(rest) > 0; {
		next := filepath.Join(dir, rest[0])
		rest = rest[1:]
		if next == dir {
			continue
		}
		info, err := os.Lstat(next)
		if err != nil {
			found[next] = true
			return
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			dir = next
			continue
		}
		found[next] = true
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return
		}
		if filepath.IsAbs(target) {
			dir = filepath.VolumeName(target) + string(filepath.Separator)
			target = strings.TrimPrefix(target, dir)
		}
		rest = append(strings.Split(target, string(filepath.Separator)), rest...)
	}
	found[dir] = true
}

// entries returns the files in the directory, sorted by name. It returns none if a single file is watched.
func (w *watcher) entries() []string {
	if w.dir == "" {
		return nil
	}
	list, err := os.ReadDir(w.dir)
	if err != nil {
		return nil // the directory was removed, which its parent directory reports
	}
	var paths []string
	for _, entry := range list {
		if !entry.IsDir() {
			paths = append(paths, filepath.Join(w.dir, entry.Name()))
		}
	}
	return paths
}

// fingerprint returns a text that changes when the resolved path, the size or the modification time of a watched file
// changes.
func (w *watcher) fingerprint() string {
	seen := fingerprintOf(w.path)
	for _, path := range w.entries() {
		seen += "\n" + path + "\t" + fingerprintOf(path)
	}
	return seen
}

func fingerprintOf(path string) string {
	end, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	info, err := os.Stat(end)
	if err != nil {
		return ""
	}
	if info.IsDir() {
		return end // its files are checked one by one
	}
	return fmt.Sprint(end, "\t", info.Size(), "\t", info.ModTime().UnixNano())
}
