package fleettest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// A Board is an Exchange in memory with a simulated network delay, for use in a synctest bubble.
type Board struct {
	delay time.Duration // network delay in each direction

	Mu    sync.Mutex
	Notes map[string]map[string]Note
	down  bool
	lost  func(key string) bool // reports whether notes of a key are lost; nil for none
	Ahead time.Duration         // how far the clock of the Board is ahead
	Calls int
}

// A Note is a note of a node, and the time when it was stored.
type Note struct {
	Text string
	At   time.Time
}

// A NodeBoard is one node's access to a Board.
type NodeBoard struct {
	*Board
	Author string
}

// Node returns the access of the node that stores notes as author.
func (b *Board) Node(author string) NodeBoard { return NodeBoard{b, author} }

// ErrDown is the error of a Board that is down.
var ErrDown = errors.New("the board is down")

// NewBoard returns an empty Board with the given network delay in each direction.
func NewBoard(delay time.Duration) *Board {
	return &Board{delay: delay, Notes: make(map[string]map[string]Note)}
}

// SetDown sets whether exchanges fail.
func (b *Board) SetDown(down bool) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.down = down
}

// Wipe deletes all notes.
func (b *Board) Wipe() {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	clear(b.Notes)
}

// Time implements fleet.ClockSource.
func (p NodeBoard) Time(ctx context.Context) (time.Time, error) {
	Wait(ctx, p.delay)
	p.Mu.Lock()
	now, down := time.Now().Add(p.Ahead), p.down
	p.Mu.Unlock()
	Wait(ctx, p.delay)
	if down || ctx.Err() != nil {
		return time.Time{}, ErrDown
	}
	return now, nil
}

// WithoutClock is an exchange that has no method Time, unlike the one that it wraps.
type WithoutClock struct{ To fleet.Exchange }

// Exchange implements fleet.Exchange.
func (u WithoutClock) Exchange(
	ctx context.Context, notes []fleet.Note, received func(int, fleet.PeerNote),
) ([]int, error) {
	return u.To.Exchange(ctx, notes, received)
}

// Lose sets a function that selects keys. From now on, notes of these keys are lost.
func (b *Board) Lose(lost func(key string) bool) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.lost = lost
}

// Exchange implements fleet.Exchange.
func (p NodeBoard) Exchange(
	ctx context.Context, notes []fleet.Note, received func(int, fleet.PeerNote),
) ([]int, error) {
	Wait(ctx, p.delay)
	type found struct {
		index int
		note  fleet.PeerNote
	}
	var all []found
	var missed []int
	p.Mu.Lock()
	p.Calls++
	down := p.down || ctx.Err() != nil
	for i, n := range notes {
		if down {
			break
		}
		if p.lost != nil && p.lost(n.Key) {
			missed = append(missed, i)
			continue
		}
		for author, note := range p.Notes[n.Key] {
			if author != p.Author {
				all = append(all, found{i, fleet.PeerNote{Author: author, Text: note.Text, Age: time.Since(note.At)}})
			}
		}
		if n.Text != "" {
			if p.Notes[n.Key] == nil {
				p.Notes[n.Key] = make(map[string]Note)
			}
			p.Notes[n.Key][p.Author] = Note{Text: n.Text, At: time.Now()}
		}
	}
	p.Mu.Unlock()
	Wait(ctx, p.delay)
	if down || ctx.Err() != nil {
		missed = make([]int, len(notes))
		for i := range missed {
			missed[i] = i
		}
		return missed, ErrDown
	}
	for _, f := range all {
		received(f.index, f.note)
	}
	if missed != nil {
		return missed, ErrDown
	}
	return nil, nil
}

// Wait waits for d or until ctx ends.
func Wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
