package membership

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/fleetredis"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

// A pocketBook is a RollBook in memory, which can be lost.
type pocketBook struct {
	mu    sync.Mutex
	heard map[string]time.Time
	err   error
	hangs bool
	mute  string // a node that is not heard
}

func (b *pocketBook) Beat(ctx context.Context, node string, live, known time.Duration) (int, int, bool, error) {
	b.mu.Lock()
	hangs := b.hangs
	b.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return 0, 0, false, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, 0, false, b.err
	}
	if node == b.mute {
		return 0, 0, false, errors.New("not heard")
	}
	_, listed := b.heard[node]
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
	return n, all, listed, nil
}

func (b *pocketBook) Leave(_ context.Context, node string, _, _ time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		delete(b.heard, node)
	}
	return b.err
}

func (b *pocketBook) set(err error, hangs bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err, b.hangs = err, hangs
}

func wantMembers(t *testing.T, when string, m fleet.Members, live, known int) {
	t.Helper()
	if m.Live() != live || m.Known() != known {
		t.Errorf("%s: got %d live and %d known, want %d and %d", when, m.Live(), m.Known(), live, known)
	}
}

func enroll(t *testing.T, book List, name string) *Membership {
	t.Helper()
	m, err := New(t.Context(), book, Options{Name: name, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMembershipCountsLiveSilentAndLeftNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &pocketBook{heard: make(map[string]time.Time)}
		a, b, c := enroll(t, book, "a"), enroll(t, book, "b"), enroll(t, book, "c")
		wantMembers(t, "the last to come, at once", c, 3, 3)
		time.Sleep(2 * time.Second)
		for _, m := range []*Membership{a, b, c} {
			wantMembers(t, "after a beat", m, 3, 3)
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
		for _, m := range []*Membership{a, b, d} {
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := a.Close(t.Context()); err != nil {
			t.Errorf("a second Close: got %v, want nil", err)
		}
	})
}

// The first node to reach the book after an outage counted itself alone and, if the book failed again at once, took the
// whole limit for the rest of the outage.
func TestCountsHoldAfterAnOutageUntilKnownToHaveChanged(t *testing.T) {
	for _, tt := range []struct {
		name   string
		outage func(b *pocketBook)
	}{
		{"the list is kept", func(*pocketBook) {}},
		{"the list is lost", func(b *pocketBook) { clear(b.heard) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				book := &pocketBook{heard: make(map[string]time.Time)}
				var all []*Membership
				for _, name := range []string{"a", "b", "c", "d"} {
					all = append(all, enroll(t, book, name))
					time.Sleep(200 * time.Millisecond) // they beat one after the other
				}
				time.Sleep(10 * time.Second)
				first := all[0]
				wantMembers(t, "before the outage", first, 4, 4)

				for range 3 {
					book.set(fleettest.ErrDown, false)
					time.Sleep(20 * time.Second)
					book.mu.Lock()
					tt.outage(book)
					book.mu.Unlock()
					// Only the first reaches the book before it fails again.
					book.set(nil, false)
					before := first.Stats().Age
					for first.Stats().Age >= before {
						before = first.Stats().Age
						time.Sleep(10 * time.Millisecond)
					}
					wantMembers(t, "the first to come back", first, 4, 4)
				}
				book.set(fleettest.ErrDown, false)
				time.Sleep(20 * time.Second)
				wantMembers(t, "in the next outage", first, 4, 4)

				// One has ended meanwhile, and nobody knows: it counts until it has been silent for long enough.
				if err := all[3].Close(t.Context()); err == nil {
					t.Fatal("a node left a book that was out of reach")
				}
				book.set(nil, false)
				time.Sleep(2 * time.Second)
				wantMembers(t, "when the book is back", first, 4, 4)
				time.Sleep(6 * time.Second)
				if got := first.Live(); got != 3 {
					t.Errorf("when all have been heard of again: got %d live, want 3", got)
				}
				// One that says that it leaves is gone at once, also right after an outage, if the list was kept.
				book.set(fleettest.ErrDown, false)
				time.Sleep(5 * time.Second)
				book.set(nil, false)
				time.Sleep(2 * time.Second)
				if err := all[2].Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(1100 * time.Millisecond)
				if got := first.Known(); tt.name == "the list is kept" && got != 3 {
					t.Errorf("after one left: got %d known, want 3", got)
				}
				time.Sleep(10 * time.Second)
				if got := first.Live(); got != 2 {
					t.Errorf("later: got %d live, want 2", got)
				}
				for _, m := range all[:2] {
					if err := m.Close(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

func TestAStartRightAfterAnOutageCountsAllListedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &pocketBook{heard: make(map[string]time.Time)}
		for _, name := range []string{"a", "b"} { // as they were before the outage
			book.heard[name] = time.Now()
		}
		time.Sleep(time.Minute)
		m := enroll(t, book, "c")
		wantMembers(t, "at once", m, 3, 3)
		time.Sleep(6 * time.Second)
		wantMembers(t, "when the others have not come back", m, 1, 3)
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAStartWithoutTheListCountsThisNodeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &pocketBook{heard: map[string]time.Time{}, hangs: true}
		start := time.Now()
		m := enroll(t, book, "a")
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("New took %v, want two intervals", took)
		}
		wantMembers(t, "at first", m, 1, 1)
		book.set(nil, false)
		time.Sleep(5 * time.Second)
		wantMembers(t, "later", m, 1, 1)
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestBadOptionsAreRefused(t *testing.T) {
	book := &pocketBook{heard: map[string]time.Time{}}
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{}, "Name"},
		{Options{Name: strings.Repeat("x", 65)}, "Name"},
		{Options{Name: "a", Interval: time.Millisecond}, "Interval"},
		{Options{Name: "a", LostAfter: time.Second}, "LostAfter"},
		{Options{Name: "a", ForgetAfter: time.Second}, "ForgetAfter"},
	} {
		if _, err := New(t.Context(), book, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want an error about %s", tt.o, err, tt.want)
		}
	}
	if _, err := New(t.Context(), nil, Options{Name: "a"}); err == nil {
		t.Error("no book: got no error")
	}
}

func TestMembershipInRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	store, err := redisstore.Open(t.Context(), server.URL(), redisstore.Options{Secret: fleettest.Secret, DialTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	book, err := fleetredis.NewMemberList(store, "fleet")
	if err != nil {
		t.Fatal(err)
	}
	var all []*Membership
	for _, name := range []string{"a", "b", "c"} {
		m, err := New(t.Context(), book, Options{Name: name, Interval: 20 * time.Millisecond, LostAfter: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	await.True(t, "all to know of all", func() bool { return all[0].Live() == 3 && all[1].Live() == 3 && all[2].Known() == 3 })
	if err := all[2].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.True(t, "one to have left", func() bool { return all[0].Live() == 2 && all[1].Known() == 2 })
	for _, m := range all[:2] {
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
