package follow_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
)

// fileOf returns the path of the rules in a directory.
func fileOf(t testing.TB, dir string) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*.ndjson"))
	if err != nil || len(list) != 1 {
		t.Fatalf("got %v, %v", list, err)
	}
	return list[0]
}

func TestNodeStartsFromDisk(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	dir := filepath.Join(t.TempDir(), "made")
	commit(t, db, rule("per-user", perUser), client("acme", `{"id":"acme","limits":["50/s"]}`))
	source := &flaky{Source: follow.Database(db, namespace, nil)}
	n := open(t, follow.Config{Source: source, Dir: dir, Poll: time.Hour})
	stop := n.run(t)
	commit(t, db, client("acme", `{"id":"acme","limits":["60/s"]}`))
	commit(t, db, client("b", `{"id":"b","limits":["70/s"]}`), rule("more", `{"id":"more","limits":["1000/s"]}`))
	commit(
		t, db, gone(control.KindRule, "more"),
		override(control.Override{ID: "o", Client: map[string]string{"user": "x"}, Limits: []string{"80/s"}, Expires: time.Now().Add(time.Hour)}),
	)
	until(t, "the last change", func() bool { return n.limit("x") == 80 })
	stop()

	source.away.Store(true)
	n = open(t, follow.Config{Source: source, Dir: dir, Poll: 20 * time.Millisecond})
	s := n.Status()
	if !s.FromDisk || !s.Ready || s.Revision != 4 || s.UnreachableReason == "" || s.DiskError != "" || s.Rules != 1 {
		t.Errorf("got %+v", s)
	}
	for user, want := range map[string]int64{"acme": 60, "b": 70, "x": 80, "other": 10} {
		if got := n.limit(user); got != want {
			t.Errorf("%s from disk: got %d, want %d", user, got, want)
		}
	}
	// When the service is reachable again, only changes are fetched.
	n.run(t)
	commit(t, db, rule("per-user", `{"id":"per-user","key":["user"],"limits":["20/s"]}`))
	source.away.Store(false)
	until(t, "it is back", func() bool { return n.limit("other") == 20 && !n.Status().FromDisk })
	if s := n.Status(); s.Snapshots != 0 || s.Deltas != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestStatusReportsMissingRules(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	commit(t, db, rule("per-user", perUser))
	source := &flaky{Source: follow.Database(db, namespace, nil)}
	source.away.Store(true)
	n := open(t, follow.Config{Source: source, Dir: t.TempDir(), Poll: 20 * time.Millisecond})
	if s := n.Status(); s.Ready || s.UnreachableReason == "" || n.applied.Load() != 0 {
		t.Errorf("got %+v", s)
	}
	n.run(t)
	source.away.Store(false)
	until(t, "it is there", func() bool { return n.Status().Ready && n.limit("x") == 10 })
}

// Wherever a write was cut off, the file has the rules before or after a change.
func TestTruncatedFileIsUsable(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	dir := t.TempDir()
	commit(t, db, rule("per-user", perUser))
	source := &flaky{Source: follow.Database(db, namespace, nil)}
	n := open(t, follow.Config{Source: source, Dir: dir, Poll: time.Hour})
	path := fileOf(t, dir)
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stop := n.run(t)
	for i := range 2 {
		revision := commit(t, db, rule("per-user", fmt.Sprintf(`{"id":"per-user","key":["user"],"limits":["%d/s"]}`, 20+i)), client("c", fmt.Sprintf(`{"id":"c","limits":["%d/s"]}`, 20+i)))
		until(t, "a change", func() bool { return n.Status().Revision == revision })
	}
	stop()
	source.away.Store(true)
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(all, first) {
		t.Fatal("changes are not added to what is there")
	}
	second := len(first) + bytes.Index(all[len(first):], []byte(`{"end":true`))
	second += bytes.IndexByte(all[second:], '\n') + 1
	for cut := 0; cut <= len(all); cut++ {
		near := func(place int) bool { return max(cut-place, place-cut) <= 2 }
		if cut%13 != 0 && !near(len(first)) && !near(second) && !near(len(all)) {
			continue
		}
		want := int64(0)
		switch {
		case cut == len(all):
			want = 21
		case cut >= second:
			want = 20
		case cut >= len(first):
			want = 10
		}
		here := t.TempDir()
		if err := os.WriteFile(filepath.Join(here, filepath.Base(path)), all[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		n := open(t, follow.Config{Source: source, Dir: here})
		if got := n.limit("c"); got != want {
			t.Fatalf("cut off at %d of %d: got %d, want %d", cut, len(all), got, want)
		}
		if s := n.Status(); s.Ready != (want > 0) || s.Ready == (s.DiskError != "") {
			t.Fatalf("cut off at %d of %d: got %+v", cut, len(all), s)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestModifiedFileIsRefused(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	dir := t.TempDir()
	commit(t, db, rule("per-user", perUser))
	source := &flaky{Source: follow.Database(db, namespace, nil)}
	n := open(t, follow.Config{Source: source, Dir: dir})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	path := fileOf(t, dir)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(data, []byte("10/s"), []byte("99/s"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	source.away.Store(true)
	n = open(t, follow.Config{Source: source, Dir: dir, Poll: 20 * time.Millisecond})
	if s := n.Status(); s.Ready || !strings.Contains(s.DiskError, "incomplete or damaged snapshot") {
		t.Errorf("got %+v", s)
	}
	n.run(t)
	source.away.Store(false)
	until(t, "a good file", func() bool { return n.limit("x") == 10 && n.Status().DiskError == "" })
	again, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(again, data) {
		t.Errorf("got %s, %v, want %s", again, err, data)
	}
}

// damaged are changes of a file after which a node cannot start from it, and the expected error.
var damaged = map[string]struct {
	damage func(path string, data []byte) error
	says   string
	stays  bool // the file cannot be rewritten
}{
	"empty": {func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) }, "invalid first line", false},
	"of a newer version": {func(path string, data []byte) error {
		return os.WriteFile(path, bytes.Replace(data, []byte(`"headgate_rules":1`), []byte(`"headgate_rules":2`), 1), 0o600)
	}, "written by a newer version", false},
	"something else": {func(path string, _ []byte) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), 1<<20), 0o600) }, "invalid first line", false},
	"a pipe":         {func(path string, _ []byte) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) }, "not a regular file", false},
	"a directory":    {func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, "not a regular file", true},
}

func TestDamagedFileDoesNotPreventTheStart(t *testing.T) {
	t.Parallel()
	for what, test := range damaged {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			db := openDB(t)
			dir := t.TempDir()
			commit(t, db, rule("per-user", perUser))
			source := &flaky{Source: follow.Database(db, namespace, nil)}
			n := open(t, follow.Config{Source: source, Dir: dir})
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			path := fileOf(t, dir)
			data, err := os.ReadFile(path)
			if err == nil {
				err = test.damage(path, data)
			}
			if err != nil {
				t.Fatal(err)
			}
			source.away.Store(true)
			n = open(t, follow.Config{Source: source, Dir: dir})
			if s := n.Status(); s.Ready || !strings.Contains(s.DiskError, test.says) {
				t.Errorf("without the source: got %+v, want %q", s, test.says)
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			source.away.Store(false)
			n = open(t, follow.Config{Source: source, Dir: dir})
			defer func() { _ = n.Close() }()
			if s := n.Status(); !s.Ready || n.limit("x") != 10 || (s.DiskError != "") != test.stays {
				t.Errorf("with the source: got %+v", s)
			}
			if again, err := os.ReadFile(path); !test.stays && !bytes.Equal(again, data) {
				t.Errorf("got %s, %v, want %s", again, err, data)
			}
		})
	}
}

// A node starts from a read-only disk.
func TestReadOnlyDiskIsRead(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	dir := t.TempDir()
	commit(t, db, rule("per-user", perUser))
	source := &flaky{Source: follow.Database(db, namespace, nil)}
	n := open(t, follow.Config{Source: source, Dir: dir})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	path := fileOf(t, dir)
	if err := errors.Join(os.Remove(path+".lock"), os.Mkdir(path+".lock", 0o700)); err != nil { // nobody can write to that, root neither
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	source.away.Store(true)
	n = open(t, follow.Config{Source: source, Dir: dir, Poll: 10 * time.Millisecond})
	if s := n.Status(); !s.Ready || !s.FromDisk || n.limit("x") != 10 || !strings.Contains(s.DiskError, ".lock") {
		t.Errorf("got %+v, want the rules of the disk, and why it is not written to", s)
	}
	n.run(t)
	source.away.Store(false)
	commit(t, db, rule("per-user", `{"id":"per-user","key":["user"],"limits":["20/s"]}`))
	until(t, "a change", func() bool { return n.limit("x") == 20 })
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) || n.Status().DiskError == "" {
		t.Errorf("got %s, %v, %+v, want the file as it was", after, err, n.Status())
	}
}

// Equal revisions of another service are not the same rules.
func TestFileOfAnotherSourceIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := openDB(t), openDB(t)
	commit(t, one, rule("per-user", perUser))
	commit(t, two, rule("per-user", `{"id":"per-user","key":["user"],"limits":["20/s"]}`))
	n := open(t, follow.Config{Source: follow.Database(one, namespace, nil), Dir: dir})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	source := &flaky{Source: follow.Database(two, namespace, nil)}
	source.away.Store(true)
	n = open(t, follow.Config{Source: source, Dir: dir, Poll: 20 * time.Millisecond})
	if got := n.limit("x"); got != 10 || !n.Status().FromDisk {
		t.Errorf("while the other is away: got %d, want 10", got)
	}
	n.run(t)
	source.away.Store(false)
	until(t, "what the other has", func() bool { return n.limit("x") == 20 && n.Status().Snapshots == 1 })
}

func TestFileIsCompacted(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	dir := t.TempDir()
	first := commit(t, db, rule("per-user", perUser), client("stays", `{"id":"stays","limits":["5/s"]}`), client("goes", `{"id":"goes"}`))
	source := &flaky{Source: follow.Database(db, namespace, nil)}
	n := open(t, follow.Config{Source: source, Dir: dir, Poll: time.Hour})
	stop := n.run(t)
	until(t, "the first rules", func() bool { return n.Status().Revision == first }) // so that the snapshot has no change
	note := strings.Repeat("long ", 800)
	path := fileOf(t, dir)
	snapshot, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var most, last int
	const changes = 8
	for i := range changes {
		ops := []control.Op{rule("r", fmt.Sprintf(`{"id":"r","description":"%s","key":["user"],"limits":["%d/s"]}`, note, i+1))}
		for j := range 40 {
			ops = append(ops, client(fmt.Sprintf("c%d", j), fmt.Sprintf(`{"id":"c%d","description":"%s","limits":["%d/s"]}`, j, note, i+1)))
		}
		if i == 5 {
			ops = append(ops, gone(control.KindClient, "goes"))
		}
		revision := commit(t, db, ops...)
		until(t, "a change", func() bool { return n.Status().Revision == revision })
		until(t, "it is written", func() bool {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			ended := bytes.HasPrefix(text[bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n')+1:], []byte(`{"end":true,`))
			if len(text) == last || !ended { // or it is being written
				return false
			}
			most = max(most, len(text))
			if len(text)-len(snapshot) > 1<<20 { // it is being rewritten, which another change would interrupt
				return false
			}
			last = len(text)
			return true
		})
	}
	stop()
	// It is rewritten once a megabyte was added. A change takes less than a fifth of that.
	if most < 4<<20/5 || most > 6<<20/5 || last > most/2 {
		t.Errorf("the file had up to %d bytes, and %d in the end; want a megabyte, and much less after that", most, last)
	}
	source.away.Store(true)
	n = open(t, follow.Config{Source: source, Dir: dir})
	defer func() { _ = n.Close() }()
	for user, want := range map[string]int64{"c0": changes, "c39": changes, "stays": 5} {
		if got := n.limit(user); got != want {
			t.Errorf("%s: got %d, want %d", user, got, want)
		}
	}
	if s := n.Status(); s.Clients != 41 || s.Rules != 2 || s.Revision != changes+1 {
		t.Errorf("got %+v", s)
	}
}

func TestTwoNodesDoNotShareAFile(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	dir := t.TempDir()
	commit(t, db, rule("per-user", perUser))
	one := open(t, follow.Config{Source: follow.Database(db, namespace, nil), Dir: dir})
	defer func() { _ = one.Close() }()
	two := open(t, follow.Config{Source: follow.Database(db, namespace, nil), Dir: dir})
	defer func() { _ = two.Close() }()
	if s := two.Status(); !s.Ready || !strings.Contains(s.DiskError, "another process") {
		t.Errorf("got %+v", s)
	}
}

func TestRulesChangeWithoutDisk(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	commit(t, db, rule("per-user", perUser))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n := open(t, follow.Config{Source: follow.Database(db, namespace, nil), Dir: filepath.Join(file, "below"), Poll: time.Hour})
	n.run(t)
	commit(t, db, rule("per-user", `{"id":"per-user","key":["user"],"limits":["20/s"]}`))
	until(t, "a change", func() bool { return n.limit("x") == 20 })
	if s := n.Status(); s.DiskError == "" {
		t.Errorf("got %+v", s)
	}
}
