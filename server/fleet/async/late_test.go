package async

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

// A slowPencil is a way to a slate on which calls are held up, by any time: before they are there, and on their way
// back, where some are lost. It leaves out what was heard before, as a fleetredis.Exchange does.
type slowPencil struct {
	fleettest.NodeBoard
	rng   *rand.Rand
	most  time.Duration // that a call is held up, each way
	loses int           // answers, one in so many; 0 if none
	wiped func() int    // how often all notes were lost

	known map[string]fleettest.Note // by key and author
	seen  int                       // of wiped
	lost  uint64
}

func (p *slowPencil) Exchange(ctx context.Context, notes []fleet.Note, received func(int, fleet.PeerNote)) ([]int, error) {
	type found struct {
		key    int
		author string
		note   fleettest.Note
	}
	var all []found
	fleettest.Wait(ctx, time.Duration(p.rng.Int64N(int64(p.most))))
	p.Mu.Lock()
	if n := p.wiped(); n != p.seen {
		p.seen, p.lost = n, 1<<fleet.KeyGroups-1
		clear(p.known)
	}
	for i, n := range notes {
		key := n.Key
		for author, note := range p.Notes[key] {
			if author != p.Author && p.known[key+author] != note {
				all = append(all, found{i, author, note})
			}
		}
		if n.Text != "" {
			if p.Notes[key] == nil {
				p.Notes[key] = make(map[string]fleettest.Note)
			}
			p.Notes[key][p.Author] = fleettest.Note{Text: n.Text, At: time.Now()}
		}
	}
	p.Mu.Unlock()
	at := time.Now()
	fleettest.Wait(ctx, time.Duration(p.rng.Int64N(int64(p.most))))
	if p.loses > 0 && p.rng.IntN(p.loses) == 0 {
		missed := make([]int, len(notes))
		for i := range missed {
			missed[i] = i
		}
		return missed, fleettest.ErrDown
	}
	for _, f := range all {
		p.known[notes[f.key].Key+f.author] = f.note
		received(f.key, fleet.PeerNote{Author: f.author, Text: f.note.Text, Age: at.Sub(f.note.At)})
	}
	return nil, nil
}

func (p *slowPencil) Lost() uint64 {
	lost := p.lost
	p.lost = 0
	return lost
}

// Nodes that ask for a key one after the other, some of them long after the first, count each unit once, however late
// their calls are, in whichever order they hear of each other, though answers are lost and all notes are. Nothing leaks
// meanwhile.
func TestAsyncCountsNothingTwiceHoweverLateCallsAre(t *testing.T) {
	for _, tt := range []struct {
		name  string
		loses int
		wipes bool
	}{
		{"late", 0, false},
		{"late and lost", 4, false},
		{"late and all notes lost", 0, true},
		{"late, lost and all notes lost", 4, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(15) {
				synctest.Test(t, func(t *testing.T) { countsOnce(t, seed, tt.loses, tt.wipes) })
				if t.Failed() {
					return
				}
			}
		})
	}
}

func countsOnce(t *testing.T, seed uint64, loses int, wipes bool) {
	const nodes = 4
	rng := rand.New(rand.NewPCG(seed, 1))
	s := fleettest.NewBoard(0)
	wiped := 0
	var all []*Limiter
	for i := range nodes {
		lo := fleet.LedgerOptions{
			Secret:    fleettest.Secret,
			OnRefused: func(from fleet.Peer, why string) { t.Errorf("seed %d: refused a tally of %v: %s", seed, from, why) },
		}
		o := Options{Name: fmt.Sprint("node ", i), Deadline: 10 * time.Second, MaxMissed: 1000, OnEvent: func(fleet.Event) {}}
		o.Rand = rand.New(rand.NewPCG(seed, uint64(100+i))).Int64N
		a, err := New(lo, &slowPencil{
			NodeBoard: s.Node(o.Author()), rng: rand.New(rand.NewPCG(seed, uint64(200+i))), most: 150 * time.Millisecond,
			loses: loses, wiped: func() int { return wiped }, known: make(map[string]fleettest.Note),
		}, o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	defer func() {
		for _, a := range all {
			if err := a.Close(context.Background()); err != nil && !errors.Is(err, fleettest.ErrDown) {
				t.Error(err)
			}
		}
	}()
	check := headgate.Check{Key: "k", Limit: headgate.Per(1000, 300*24*time.Hour)}
	remaining := func(a *Limiter) int64 {
		d, err := a.Peek(context.Background(), check)
		if err != nil {
			t.Fatal(err)
		}
		return d.Remaining
	}
	left := int64(1000)
	for range 3 * nodes {
		time.Sleep(time.Duration(rng.Int64N(int64(400 * time.Millisecond))))
		take := check
		take.Cost = 1 + rng.Int64N(20)
		if _, err := all[rng.IntN(nodes)].Charge(context.Background(), take); err != nil {
			t.Fatal(err)
		}
		left -= take.Cost
		if wipes && rng.IntN(4) == 0 {
			s.Wipe()
			s.Mu.Lock()
			wiped++
			s.Mu.Unlock()
		}
		for i, a := range all {
			if got := remaining(a); got < left {
				t.Fatalf("seed %d: node %d has %d left while %d are: it counted some twice", seed, i, got, left)
			}
		}
	}
	more := check
	more.Cost = 1
	for _, a := range all {
		if _, err := a.Charge(context.Background(), more); err != nil {
			t.Fatal(err)
		}
		left--
	}
	more.Cost = 1000
	for range 50 { // a denied key is looked up
		time.Sleep(100 * time.Millisecond)
		for i, a := range all {
			if d, err := a.Take(context.Background(), more); err != nil || d.Allowed || d.Remaining < left {
				t.Fatalf("seed %d: node %d: got %+v, %v, want a denial and %d left or more", seed, i, d, err, left)
			}
		}
	}
	for i, a := range all {
		if got := remaining(a); got != left {
			t.Errorf("seed %d: node %d has %d left in the end, want %d", seed, i, got, left)
		}
	}
}
