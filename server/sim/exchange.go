package sim

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// A board contains the notes that nodes exchange through the Redis servers in the mode async.
type board struct {
	notes map[string][]note // by key
	seq   uint64
	spare [][]exchangePart // parts of exchanges that have ended; their memory can be used again
}

// A note is a text that a node has stored under a key.
type note struct {
	author, text string
	at           time.Duration
	seq          uint64
}

// An exchangeClient is a node's access to the board.
type exchangeClient struct {
	redisClient
	author string
	read   map[string]uint64 // by key, the seq up to which notes were read
	losses []int             // by server, the value of redisServer.losses that this client has noticed
	lost   uint64            // a bit for each key group whose notes were lost; see Lost
}

var (
	_ fleet.Exchange     = (*exchangeClient)(nil)
	_ fleet.LossReporter = (*exchangeClient)(nil)
	_ fleet.ClockSource  = (*exchangeClient)(nil)
)

func (w *world) newExchangeClient(n *node, author string) *exchangeClient {
	x := &exchangeClient{
		redisClient: redisClient{w, n, w.exchangeServers()}, author: author, read: make(map[string]uint64),
	}
	for _, s := range x.servers {
		x.losses = append(x.losses, s.losses)
	}
	return x
}

func groupOf(key string) int { return int(key[0] % fleet.KeyGroups) }

// serverOf returns the number of the server that has a key.
func (x *exchangeClient) serverOf(key string) int { return groupOf(key) % len(x.servers) }

// Time implements fleet.ClockSource.
func (x *exchangeClient) Time(ctx context.Context) (at time.Time, err error) {
	s := x.servers[0]
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

// noticeLoss checks whether a server has lost its notes since the last call, and records the lost key groups.
func (x *exchangeClient) noticeLoss(server int) {
	losses := x.servers[server].losses
	if x.losses[server] == losses {
		return
	}
	x.losses[server] = losses
	for g := range fleet.KeyGroups {
		if g%len(x.servers) == server {
			x.lost |= 1 << g
		}
	}
}

// Exchange implements fleet.Exchange. It calls the servers at the same time.
func (x *exchangeClient) Exchange(
	ctx context.Context, notes []fleet.Note, received func(int, fleet.PeerNote),
) (missed []int, err error) {
	if len(notes) == 0 {
		return nil, x.call(ctx, x.servers[0], 0, func() error { return nil })
	}
	board := x.world.board
	parts := board.newParts(len(x.servers))
	defer func() { board.spare = append(board.spare, parts) }()
	for i := range notes {
		p := &parts[x.serverOf(notes[i].Key)]
		p.index = append(p.index, i)
	}
	calling := 0
	for server := range parts {
		if len(parts[server].index) == 0 {
			continue
		}
		calling++
		x.node.host.Go(func() {
			x.exchangePart(ctx, server, &parts[server], notes)
			calling--
		})
	}
	x.node.host.Wait(func() bool { return calling == 0 })
	for i := range parts {
		p := &parts[i]
		if p.err != nil {
			missed, err = append(missed, p.index...), p.err
		}
		for _, f := range p.found {
			if x.world.bugs.deafNewcomer && x.node.slot >= x.world.scenario.AllNodes() {
				break
			}
			received(f.index, f.note)
		}
	}
	return missed, err
}

// newParts returns empty parts of an exchange, one for each server.
func (b *board) newParts(servers int) []exchangePart {
	last := len(b.spare) - 1
	if last < 0 {
		return make([]exchangePart, servers)
	}
	parts := b.spare[last]
	b.spare = b.spare[:last]
	for i := range parts {
		parts[i] = exchangePart{index: parts[i].index[:0], found: parts[i].found[:0]}
	}
	return parts
}

// An exchangePart is the part of an exchange with one server.
type exchangePart struct {
	index []int // indices of the notes
	found []foundNote
	err   error
}

// A foundNote is a note of a peer under the key of a note that was sent.
type foundNote struct {
	index int
	note  fleet.PeerNote
}

// exchangePart exchanges the notes of one server.
func (x *exchangeClient) exchangePart(ctx context.Context, server int, p *exchangePart, notes []fleet.Note) {
	w := x.world
	bytes := 0
	for _, i := range p.index {
		bytes += len(notes[i].Key) + len(notes[i].Text)
	}
	p.err = x.call(ctx, x.servers[server], bytes, func() error {
		x.noticeLoss(server)
		b := w.board
		reply := 0
		for _, i := range p.index {
			n, read := &notes[i], x.read[notes[i].Key]
			for _, other := range b.notes[n.Key] {
				if other.author != x.author && (n.ReadAll || other.seq > read) {
					p.found = append(p.found, foundNote{i, fleet.PeerNote{
						Author: other.author, Text: other.text, Age: w.loop.Now() - other.at,
					}})
					reply += len(other.author) + len(other.text)
				}
			}
			if n.Text != "" {
				b.leave(n, x.author, w.loop.Now())
			}
			x.read[n.Key] = b.seq
		}
		w.networkTo(x.node, x.servers[server]).bytes += int64(reply)
		return nil
	})
	if p.err != nil {
		p.found = p.found[:0]
		for _, i := range p.index {
			delete(x.read, notes[i].Key) // read all notes again
		}
	}
}

// leave stores a note. It replaces the author's earlier note under the key.
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

// wipe deletes the notes of a server.
func (b *board) wipe(server, servers int) {
	for key := range b.notes {
		if groupOf(key)%servers == server {
			delete(b.notes, key)
		}
	}
}
