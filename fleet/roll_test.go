package fleet

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
)

// A pocketBook is a RollBook in memory, which can be lost.
type pocketBook struct {
	mu    sync.Mutex
	heard map[string]time.Time
	err   error
	hangs bool
	mute  string // a node that is not heard
}

func (b *pocketBook) Beat(ctx context.Context, node string, live, known time.Duration) (int, int, error) {
	b.mu.Lock()
	hangs := b.hangs
	b.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return 0, 0, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, 0, b.err
	}
	if node == b.mute {
		return 0, 0, errors.New("not heard")
	}
	b.heard[node] = time.Now()
	n, all := 0, 0
	for _, at := range b.heard {
		if time.Since(at) <= live {
			n++
		}
		if time.Since(at) <= known {
			all++
		}
	}
	return n, all, nil
}

func (b *pocketBook) Leave(_ context.Context, node string, _, _ time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.heard, node)
	return b.err
}

func (b *pocketBook) set(err error, hangs bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err, b.hangs = err, hangs
}

func wantMembers(t *testing.T, when string, m Members, live, known int) {
	t.Helper()
	if m.Live() != live || m.Known() != known {
		t.Errorf("%s: got %d live and %d known, want %d and %d", when, m.Live(), m.Known(), live, known)
	}
}

func enroll(t *testing.T, book RollBook, name string) *Roll {
	t.Helper()
	r, err := NewRoll(t.Context(), book, RollOptions{Name: name, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestARollKnowsWhoIsThereWhoFellSilentAndWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &pocketBook{heard: make(map[string]time.Time)}
		a, b, c := enroll(t, book, "a"), enroll(t, book, "b"), enroll(t, book, "c")
		wantMembers(t, "the last to come, at once", c, 3, 3)
		time.Sleep(2 * time.Second)
		for _, r := range []*Roll{a, b, c} {
			wantMembers(t, "after a beat", r, 3, 3)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		wantMembers(t, "after one left", a, 2, 2)

		book.mu.Lock()
		book.mute = "b"
		book.mu.Unlock()
		time.Sleep(10 * time.Second)
		wantMembers(t, "after one fell silent", a, 1, 2)
		time.Sleep(11 * time.Minute)
		wantMembers(t, "after it was silent for long", a, 1, 1)

		book.set(errors.New("lost"), false)
		time.Sleep(time.Minute)
		wantMembers(t, "while the book is lost", a, 1, 1)
		if s := a.Stats(); s.Failures < 50 || s.Age < 50*time.Second {
			t.Errorf("stats: got %+v, want a minute of failures", s)
		}
		book.set(nil, true)
		time.Sleep(time.Minute)
		book.set(nil, false)
		d := enroll(t, book, "d")
		time.Sleep(5 * time.Second)
		wantMembers(t, "when it was found again", a, 2, 2)
		for _, r := range []*Roll{a, b, d} {
			if err := r.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := a.Close(t.Context()); !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("a second Close: got %v, want ErrClosed", err)
		}
	})
}

func TestARollThatCannotReachItsBookBeginsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &pocketBook{heard: map[string]time.Time{}, hangs: true}
		start := time.Now()
		r := enroll(t, book, "a")
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("NewRoll took %v, want two beats", took)
		}
		wantMembers(t, "at first", r, 1, 1)
		book.set(nil, false)
		time.Sleep(5 * time.Second)
		wantMembers(t, "later", r, 1, 1)
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestARollRefusesBadOptions(t *testing.T) {
	book := &pocketBook{heard: map[string]time.Time{}}
	for _, tt := range []struct {
		o    RollOptions
		want string
	}{
		{RollOptions{}, "Name"},
		{RollOptions{Name: strings.Repeat("x", 65)}, "Name"},
		{RollOptions{Name: "a", Every: time.Millisecond}, "Every"},
		{RollOptions{Name: "a", Silent: time.Second}, "Silent"},
		{RollOptions{Name: "a", Forget: time.Second}, "Forget"},
	} {
		if _, err := NewRoll(t.Context(), book, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want an error about %s", tt.o, err, tt.want)
		}
	}
	if _, err := NewRoll(t.Context(), nil, RollOptions{Name: "a"}); err == nil {
		t.Error("no book: got no error")
	}
}

func TestARollInRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	store, err := redisstore.Open(t.Context(), server.URL(), redisstore.Options{Secret: testSecret, DialTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	book, err := store.Roll("fleet")
	if err != nil {
		t.Fatal(err)
	}
	var all []*Roll
	for _, name := range []string{"a", "b", "c"} {
		r, err := NewRoll(t.Context(), book, RollOptions{Name: name, Every: 20 * time.Millisecond, Silent: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	waitFor(t, "all to know of all", func() bool { return all[0].Live() == 3 && all[1].Live() == 3 && all[2].Known() == 3 })
	if err := all[2].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "one to have left", func() bool { return all[0].Live() == 2 && all[1].Known() == 2 })
	for _, r := range all[:2] {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
