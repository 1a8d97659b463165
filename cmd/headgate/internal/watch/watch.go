// Package watch tells when a file may have changed, however it is changed: written in place, replaced by an editor, or by a
// symbolic link that is swapped somewhere on the way to it, as Kubernetes does with the files of a ConfigMap.
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

// What Options hold unless told otherwise.
const (
	DefaultSettle = 100 * time.Millisecond
	DefaultPoll   = 10 * time.Second
)

// maxSettle is how long a file that is written again and again is waited for.
const maxSettle = time.Second

// Options are the settings of File. The zero Options are good.
type Options struct {
	// Settle is how long nothing more must happen before it is told. Default DefaultSettle.
	Settle time.Duration
	// Poll is how often the file is looked at by itself, for file systems that do not tell of changes (NFS, some mounts of
	// containers). Default DefaultPoll.
	Poll time.Duration
	// Logger hears when the system cannot tell of changes. Default slog.Default().
	Logger *slog.Logger
}

// File calls changed whenever the file at path may have changed, one call after the other, until ctx ends. It calls it once
// when it has begun to watch, for what happened before, and may call it for no change. The file need not exist.
func File(ctx context.Context, path string, o Options, changed func()) error {
	if o.Settle == 0 {
		o.Settle = DefaultSettle
	}
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
	w := &watcher{path: absolute, options: o, changed: changed, watched: map[string]bool{}}
	if w.notify, err = fsnotify.NewWatcher(); err != nil {
		o.Logger.Warn("the system does not tell of changed files; looking at it by and by", "file", path, "every", o.Poll, "error", err)
	} else {
		defer func() { _ = w.notify.Close() }()
	}
	w.follow()
	w.seen = look(w.path)
	w.changed()
	w.run(ctx)
	return nil
}

type watcher struct {
	path    string
	options Options
	changed func()
	notify  *fsnotify.Watcher // nil if there is none
	steps   map[string]bool   // the links on the way to the file, and the file
	watched map[string]bool   // directories
	seen    sight
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
	var first time.Time // when what is not told yet began; zero if all is told
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
			if e.Op == fsnotify.Chmod || !w.steps[e.Name] && !w.watched[e.Name] {
				continue
			}
			now := time.Now()
			if first.IsZero() {
				first = now
			}
			settled.Reset(min(w.options.Settle, max(0, maxSettle-now.Sub(first))))
		case err, ok := <-failures:
			if !ok {
				failures = nil
				continue
			}
			w.options.Logger.Warn("watching a file", "file", w.path, "error", err)
		case <-settled.C:
			first = time.Time{}
			w.follow()
			w.seen = look(w.path)
			w.changed()
		case <-poll.C:
			w.follow()
			if now := look(w.path); now != w.seen {
				w.seen = now
				w.changed()
			}
		}
	}
}

// follow finds the steps to the file as they are now, and watches the directories that they are in.
func (w *watcher) follow() {
	w.steps = steps(w.path)
	wanted := make(map[string]bool, len(w.steps))
	for step := range w.steps {
		wanted[filepath.Dir(step)] = true
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
			w.options.Logger.Warn("cannot watch a directory any more; looking at it by and by", "directory", dir, "every", w.options.Poll, "error", err)
		}
	}
}

// maxLinks is how many symbolic links are followed, as the system does.
const maxLinks = 40

// steps returns the paths whose change may change what a path leads to: every symbolic link on the way, and its end. What
// does not exist is a step too, since it may come to be.
func steps(path string) map[string]bool {
	found := make(map[string]bool)
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
			return found
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		found[next] = true
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return found
		}
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(target) + string(filepath.Separator)
			target = strings.TrimPrefix(target, at)
		}
		rest = append(strings.Split(target, string(filepath.Separator)), rest...)
	}
	found[at] = true
	return found
}

// A sight is what a file looks like from outside.
type sight struct {
	end  string
	size int64
	at   time.Time
}

func look(path string) sight {
	end, err := filepath.EvalSymlinks(path)
	if err != nil {
		return sight{}
	}
	info, err := os.Stat(end)
	if err != nil {
		return sight{}
	}
	return sight{end: end, size: info.Size(), at: info.ModTime()}
}
