package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// A slate is an Exchange in memory, behind a network that is simulated: in a synctest bubble, time is virtual.
type slate struct {
	delay time.Duration // one way

	mu    sync.Mutex
	notes map[string]map[string]slateNote
	down  bool
	lost  func(key string) bool // of which keys notes are lost; nil if of none
	ahead time.Duration         // of its date
	calls int
}

type slateNote struct {
	text string
	at   time.Time
}

// A pencil is one node's way to a slate.
type pencil struct {
	*slate
	author string
}

var errDown = errors.New("the slate is away")

func newSlate(delay time.Duration) *slate {
	return &slate{delay: delay, notes: make(map[string]map[string]slateNote)}
}

func (s *slate) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// wipe loses all notes.
func (s *slate) wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.notes)
}

// Date implements Dater.
func (p pencil) Date(ctx context.Context) (time.Time, error) {
	wait(ctx, p.delay)
	p.mu.Lock()
	date, down := time.Now().Add(p.ahead), p.down
	p.mu.Unlock()
	wait(ctx, p.delay)
	if down || ctx.Err() != nil {
		return time.Time{}, errDown
	}
	return date, nil
}

// undated hides that an exchange has a date.
type undated struct{ to Exchange }

func (u undated) Exchange(ctx context.Context, keys, notes []string, keep []time.Duration, all []bool, heard func(int, string, string, time.Duration)) ([]int, error) {
	return u.to.Exchange(ctx, keys, notes, keep, all, heard)
}

// lose has notes of some keys lost from now on.
func (s *slate) lose(lost func(key string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = lost
}

func (p pencil) Exchange(ctx context.Context, keys, notes []string, _ []time.Duration, _ []bool, heard func(int, string, string, time.Duration)) ([]int, error) {
	wait(ctx, p.delay)
	type found struct {
		key          int
		author, note string
		age          time.Duration
	}
	var all []found
	var missed []int
	p.mu.Lock()
	p.calls++
	down := p.down || ctx.Err() != nil
	for i := range keys {
		if down {
			break
		}
		if p.lost != nil && p.lost(keys[i]) {
			missed = append(missed, i)
			continue
		}
		for author, note := range p.notes[keys[i]] {
			if author != p.author {
				all = append(all, found{i, author, note.text, time.Since(note.at)})
			}
		}
		if notes[i] != "" {
			if p.notes[keys[i]] == nil {
				p.notes[keys[i]] = make(map[string]slateNote)
			}
			p.notes[keys[i]][p.author] = slateNote{notes[i], time.Now()}
		}
	}
	p.mu.Unlock()
	wait(ctx, p.delay)
	if down || ctx.Err() != nil {
		missed = make([]int, len(keys))
		for i := range missed {
			missed[i] = i
		}
		return missed, errDown
	}
	for _, f := range all {
		heard(f.key, f.author, f.note, f.age)
	}
	if missed != nil {
		return missed, errDown
	}
	return nil, nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// startAsync starts nodes that share a slate. They end with the test.
func startAsync(t testing.TB, n int, s *slate, change func(*LedgerOptions, *AsyncOptions)) []*Async {
	t.Helper()
	var all []*Async
	for i := range n {
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		lo := LedgerOptions{
			Secret:    testSecret,
			OnRefused: func(from Peer, tally Tally, why string) { t.Errorf("refused %+v of %v: %s", tally, from, why) },
		}
		o := AsyncOptions{
			Name: fmt.Sprint("node ", i), Incarnation: uint64(100 + i), Rand: rng.Int64N,
			OnEvent: func(e AsyncEvent) { t.Errorf("an event: %v %v", e.Kind, e.Err) },
		}
		if change != nil {
			change(&lo, &o)
		}
		a, err := NewAsync(lo, pencil{s, o.Author()}, o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

func closeAsync(t testing.TB, all ...*Async) {
	t.Helper()
	for _, a := range all {
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
