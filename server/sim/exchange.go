package sim

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// A board holds the notes of the mode async, on the Redis servers.
type board struct {
	notes map[string][]note // by key
	seq   uint64
}

// A note is what a node has left under a key.
type note struct {
	author, text string
	at           time.Duration
	seq          uint64
}

// An exchangeClient is a node's access to the board.
type exchangeClient struct {
	redisClient
	author string
	read   map[string]uint64 // the seq up to which the notes of a key were read
	losses []int             // of the servers, as far as they were noticed
	lost   uint64
}

var (
	_ fleet.Exchange     = (*exchangeClient)(nil)
	_ fleet.LossReporter = (*exchangeClient)(nil)
	_ fleet.ClockSource  = (*exchangeClient)(nil)
)

func newExchangeClient(c redisClient, author string) *exchangeClient {
	x := &exchangeClient{redisClient: c, author: author, read: make(map[string]uint64)}
	for _, s := range c.world.redis {
		x.losses = append(x.losses, s.losses)
	}
	return x
}

func groupOf(key string) int { return int(key[0] % fleet.KeyGroups) }

// serverOf returns the number of the server that has a key.
func (x *exchangeClient) serverOf(key string) int { return groupOf(key) % len(x.world.redis) }

// Date implements fleet.ClockSource.
func (x *exchangeClient) Date(ctx context.Context) (at time.Time, err error) {
	s := x.world.redis[0]
	err = x.call(ctx, s, 0, func() error {
		at = x.world.loop.Time().Add(s.ahead)
		return nil
	})
	return at, err
}

// Lost implements fleet.LossReporter.
func (x *exchangeClient) Lost() uint64 {
	lost := x.lost
	x.lost = 0
	return lost
}

// noticeLoss records that a server has lost its notes.
func (x *exchangeClient) noticeLoss(server int) {
	losses := x.world.redis[server].losses
	if x.losses[server] == losses {
		return
	}
	x.losses[server] = losses
	for g := range fleet.KeyGroups {
		if g%len(x.world.redis) == server {
			x.lost |= 1 << g
		}
	}
}

// Exchange implements fleet.Exchange. It calls the servers one after the other, as their order must not depend on
// anything random.
func (x *exchangeClient) Exchange(
	ctx context.Context, notes []fleet.Note, received func(int, fleet.PeerNote),
) (missed []int, err error) {
	parts := make([][]int, len(x.world.redis))
	for i := range notes {
		server := x.serverOf(notes[i].Key)
		parts[server] = append(parts[server], i)
	}
	if len(notes) == 0 {
		return nil, x.call(ctx, x.world.redis[0], 0, func() error { return nil })
	}
	for server, part := range parts {
		if len(part) == 0 {
			continue
		}
		if callErr := x.exchangePart(ctx, server, part, notes, received); callErr != nil {
			missed, err = append(missed, part...), callErr
		}
	}
	return missed, err
}

// exchangePart exchanges the notes of one server.
func (x *exchangeClient) exchangePart(
	ctx context.Context, server int, part []int, notes []fleet.Note, received func(int, fleet.PeerNote),
) error {
	w := x.world
	bytes := 0
	for _, i := range part {
		bytes += len(notes[i].Key) + len(notes[i].Text)
	}
	type found struct {
		index int
		note  fleet.PeerNote
	}
	var all []found
	err := x.call(ctx, w.redis[server], bytes, func() error {
		x.noticeLoss(server)
		b := w.board
		reply := 0
		for _, i := range part {
			n := &notes[i]
			list := b.notes[n.Key]
			for _, other := range list {
				if other.author != x.author && (n.ReadAll || other.seq > x.read[n.Key]) {
					all = append(all, found{i, fleet.PeerNote{Author: other.author, Text: other.text, Age: w.loop.Now() - other.at}})
					reply += len(other.author) + len(other.text)
				}
			}
			if n.Text != "" {
				b.leave(n, x.author, w.loop.Now())
			}
			x.read[n.Key] = b.seq
		}
		w.network.bytes += int64(reply)
		return nil
	})
	if err != nil {
		for _, i := range part {
			delete(x.read, notes[i].Key) // read all notes again
		}
		return err
	}
	for _, f := range all {
		if w.bugs.deafNewcomer && x.node.slot >= w.scenario.Nodes {
			break
		}
		received(f.index, f.note)
	}
	return nil
}

// leave stores a note.
func (b *board) leave(n *fleet.Note, author string, now time.Duration) {
	b.seq++
	stored := note{author: author, text: n.Text, at: now, seq: b.seq}
	list := b.notes[n.Key]
	if i := slices.IndexFunc(list, func(o note) bool { return o.author == author }); i >= 0 {
		list[i] = stored
		return
	}
	b.notes[n.Key] = append(list, stored)
}

// wipe loses the notes of a server.
func (b *board) wipe(server, servers int) {
	for key := range b.notes {
		if groupOf(key)%servers == server {
			delete(b.notes, key)
		}
	}
}
