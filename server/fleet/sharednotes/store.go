package sharednotes

import (
	"strconv"
	"strings"
	"time"
)

// A Store has the data of one simulated Redis server. It is not safe for concurrent use. Create one with [New].
type Store struct {
	replicationID string
	groups        map[string]*group // by the Redis key of the group
	keys          map[string]*key   // by Redis key
}

// A group is the state of a group of keys.
type group struct {
	epoch, fingerprint string
	replyEpoch         string // epoch followed by the replication id
	version            int64
	expiresAt          int64 // in ms, like all times
}

// A key has the notes of one key, one for each author.
type key struct {
	notes     []note
	expiresAt int64
}

type note struct {
	author, text string
	version, at  int64
}

// New returns an empty Store.
func New(replicationID string) *Store {
	return &Store{replicationID: replicationID, groups: make(map[string]*group), keys: make(map[string]*key)}
}

// Promote gives the server another replication id, as when a replica with all data becomes primary.
func (s *Store) Promote(replicationID string) {
	s.replicationID = replicationID
	for _, g := range s.groups {
		g.replyEpoch = g.epoch + replicationID
	}
}

// Len returns the number of keys that have notes. It includes keys that have expired since the last call of Expire.
func (s *Store) Len() int { return len(s.keys) }

// Expire removes all keys that have expired. A call removes its own expired keys even without Expire.
func (s *Store) Expire(now time.Time) {
	for name, k := range s.keys {
		if now.UnixMilli() > k.expiresAt {
			delete(s.keys, name)
		}
	}
}

// The arguments and the reply of exchange.lua.
const (
	headArgs    = 4
	numberBytes = 6
	headBytes   = 2 * numberBytes
)

// Run runs a call of exchange.lua at a time of the server. It appends the reply, in which integers are in decimal, to a
// list. It also returns the number of notes that the call has read.
func (s *Store) Run(reply, keys, args []string, now time.Time) (_ []string, notes int) {
	ms := now.UnixMilli()
	author, fingerprint := args[0], args[1]
	g := s.groups[keys[0]]
	if g == nil || ms > g.expiresAt {
		g = &group{epoch: args[2], fingerprint: fingerprint, replyEpoch: args[2] + s.replicationID}
		s.groups[keys[0]] = g
	}
	g.version++
	epoch, foreign := g.replyEpoch, "0"
	if g.fingerprint != fingerprint {
		foreign = "1"
	}
	reply = append(reply, epoch, strconv.FormatInt(g.version, 10), foreign)
	longest := int64(0)
	for i, arg := range args[headArgs:] {
		name := keys[1+i]
		since, keep := number(arg[:numberBytes]), number(arg[numberBytes:headBytes])
		if args[3] != epoch || since >= g.version {
			since = 0 // notes were lost
		}
		longest = max(longest, keep)
		k := s.keys[name]
		if k != nil && ms > k.expiresAt {
			delete(s.keys, name)
			k = nil
		}
		if k != nil {
			notes += len(k.notes)
			reply = k.read(reply, i+1, author, since, keep, ms)
		}
		if len(arg) == headBytes {
			continue
		}
		if k == nil {
			k = &key{}
			s.keys[strings.Clone(name)] = k
		}
		k.write(note{author: author, text: strings.Clone(arg[headBytes:]), version: g.version, at: ms})
		k.expiresAt = ms + keep
	}
	g.expiresAt = max(g.expiresAt, ms+longest)
	return reply, notes
}

// read appends the notes of peers that have a version above since, and drops those that are too old.
func (k *key) read(reply []string, number int, author string, since, keep, now int64) []string {
	kept := k.notes[:0]
	for _, n := range k.notes {
		age := now - n.at
		if n.author != author && age > keep {
			continue
		}
		kept = append(kept, n)
		if n.author != author && n.version > since {
			reply = append(reply, strconv.Itoa(number), n.author, strconv.FormatInt(max(0, age), 10), n.text)
		}
	}
	clear(k.notes[len(kept):])
	k.notes = kept
	return reply
}

// write stores a note. It replaces the author's earlier note.
func (k *key) write(written note) {
	for i := range k.notes {
		if k.notes[i].author == written.author {
			k.notes[i] = written
			return
		}
	}
	k.notes = append(k.notes, written)
}

// number returns a number of exchange.lua.
func number(text string) (n int64) {
	for i := range len(text) {
		n = n<<8 | int64(text[i])
	}
	return n
}
