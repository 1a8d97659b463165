package redisstore

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/ascii85"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

//go:embed exchange.lua
var exchangeLua string

// A Board is where nodes that decide by themselves leave notes of what they consumed: a fleet.Exchange. Make one with
// [Store.Board]. One exchange is made at a time.
//
// A key is a hash in Redis of one field a node, and all its notes together are in one of 64 places, which a cluster
// spreads over its servers. One call of a script serves all keys of a place: it leaves a node's notes and returns those
// of the others that are new to it. Ages of notes are by the server's clock, and [Board.Date] tells its date. What is
// there is a message, not a counter: if it is lost, each node remembers what it has heard, and the next notes say all
// that the lost ones did. A server that may lack the latest, as one that was started again or was a replica, is known
// by its replication id, if nodes are allowed INFO.
type Board struct {
	store  *Store
	name   string
	author string
	mark   string
	script *script
	date   *script

	mu     sync.Mutex
	places [places]place
	lost   uint64 // places whose notes were lost, and nobody was told yet
}

// places is on how many tags keys are spread.
const places = 64

// A place is what is known of one of them.
type place struct {
	epoch    string
	version  int64            // the highest that was seen in this epoch
	versions map[string]int64 // up to which notes of a key are known, for keys of the latest exchanges
}

// maxVersions is of how many keys a place remembers that. When there are more it begins with those of the latest
// exchange, and notes of the others are heard once more.
const maxVersions = 1024

// BoardOptions are the settings of a Board.
type BoardOptions struct {
	// Name is that of the fleet, so that several may use one Redis. Letters, digits and . - _ : / only, at most 64 bytes.
	// Default "fleet".
	Name string
	// Author is whose notes these are, as fleet.AsyncOptions.Author says. Not empty.
	Author string
	// Mark is the same on all nodes of a fleet, and tells it from others of the same name: fleet.Fingerprint of its
	// secret.
	Mark uint64
}

// Board returns a place to leave notes.
func (s *Store) Board(o BoardOptions) (*Board, error) {
	if o.Name == "" {
		o.Name = "fleet"
	}
	if err := checkFleetName(o.Name); err != nil {
		return nil, err
	}
	if o.Author == "" || len(o.Author) > maxAuthor {
		return nil, fmt.Errorf("redisstore: BoardOptions.Author has %d bytes: want 1 to %d", len(o.Author), maxAuthor)
	}
	return &Board{
		store: s, name: o.Name, author: o.Author, mark: strconv.FormatUint(o.Mark, 36),
		script: newScript(s.currentScripts().major, writes, exchangeLua), date: newDateScript(s.currentScripts().major),
	}, nil
}

const maxAuthor = 128

func checkFleetName(name string) error {
	if len(name) > maxPrefix || strings.ContainsFunc(name, notInPrefix) {
		return fmt.Errorf("redisstore: a fleet's Name %s: want letters, digits and . - _ : / only, at most %d",
			strconv.Quote(name[:min(len(name), maxPrefix)]), maxPrefix)
	}
	return nil
}

// FleetSecret returns what nodes that share this store can hash keys with, and that nobody else knows: it is made of
// the store's own secret.
func (s *Store) FleetSecret(ctx context.Context) ([]byte, error) {
	keys, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	h := keys.macs.Get().(*mac)
	defer keys.macs.Put(h)
	const never = 1 << 20 // a part that no key has
	sum := h.sum("headgate", "fleet", never)
	return sum[:], nil
}

// A ForeignError tells that another fleet uses the same name on the same servers.
type ForeignError struct {
	// Name is that of both.
	Name string
}

func (e *ForeignError) Error() string {
	return "redisstore: a fleet with another secret uses the name " + strconv.Quote(e.Name) +
		": give each fleet a name of its own, or its nodes one secret"
}

// Foreign is true, for those who ask without knowing this type.
func (e *ForeignError) Foreign() bool { return true }

// An errand is what there is to do in one place.
type errand struct {
	place int
	keys  []string // in Redis
	args  []string
	index []int // of the caller's keys
}

// numbers in exchange.lua have so many bytes.
const noteNumber = 6

func appendNoteNumber(b []byte, n int64) []byte {
	n = min(max(n, 0), 1<<(8*noteNumber)-1)
	return append(b, byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// Exchange leaves notes and calls heard for those of others. See fleet.Exchange.
func (b *Board) Exchange(
	ctx context.Context, keys, notes []string, keep []time.Duration, whole []bool,
	heard func(key int, author, note string, age time.Duration),
) (missed []int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.store.begin(ctx); err != nil {
		return all(len(keys)), err
	}
	errands, err := b.errands(keys, notes, keep, whole)
	if err != nil {
		return all(len(keys)), err
	}
	results := b.store.sendAll(ctx, b.script, errands)
	foreign := false
	for i, e := range errands {
		other, failed := b.read(e, keys, results[i], heard)
		foreign = foreign || other
		if failed != nil {
			b.places[e.place].versions = nil // what it has is heard again
			missed, err = append(missed, e.index...), errors.Join(err, failed)
		}
	}
	if foreign && err == nil {
		err = &ForeignError{Name: b.name}
	}
	return missed, err
}

// Lost returns in which places notes were lost, as far as exchanges since it was last called have shown, one bit each.
// See fleet.Forgetful.
func (b *Board) Lost() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	lost := b.lost
	b.lost = 0
	return lost
}

func all(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// errands sorts keys by place.
func (b *Board) errands(keys, notes []string, keep []time.Duration, whole []bool) ([]*errand, error) {
	var byPlace [places]*errand
	var list []*errand
	if len(keys) == 0 { // to find out whether there is anybody
		return []*errand{b.errand(0)}, nil
	}
	for i, key := range keys {
		if len(key) != nameSize {
			return nil, fmt.Errorf("redisstore: a key of %d bytes: want %d", len(key), nameSize)
		}
		at := int(key[0]) % places
		e := byPlace[at]
		if e == nil {
			e = b.errand(at)
			byPlace[at] = e
			list = append(list, e)
		}
		var name [nameBytes]byte
		size := ascii85.Encode(name[:], []byte(key))
		e.keys = append(e.keys, e.keys[0]+string(name[:size]))
		since := b.places[at].versions[key]
		if whole[i] {
			since = 0
		}
		arg := appendNoteNumber(make([]byte, 0, 2*noteNumber+len(notes[i])), since)
		arg = appendNoteNumber(arg, keep[i].Milliseconds())
		e.args = append(e.args, string(append(arg, notes[i]...)))
		e.index = append(e.index, i)
	}
	return list, nil
}

// errand returns one without keys.
func (b *Board) errand(at int) *errand {
	return &errand{
		place: at,
		keys:  []string{b.store.prefix + ":" + b.name + "{" + tagOf(at) + "}"},
		args:  []string{b.author, b.mark, strconv.FormatUint(rand.Uint64(), 36), b.places[at].epoch},
	}
}

// tag names a place. Names that count up would be in neighbouring slots of some clusters; hashes are spread.
func tagOf(at int) string {
	sum := sha256.Sum256([]byte{byte(at)})
	return hex.EncodeToString(sum[:2]) + strconv.Itoa(at)
}

// sendAll runs a script for errands, those for one server at once.
func (s *Store) sendAll(ctx context.Context, sc *script, errands []*errand) []rueidis.RedisResult {
	commands := make([]rueidis.Completed, len(errands))
	for i, e := range errands {
		commands[i] = s.evalSHA(sc, e.keys, e.args)
	}
	results := s.client.DoMulti(ctx, commands...)
	var again []int
	for i := range results {
		if isUnknownScript(results[i].Error()) {
			again = append(again, i)
		}
	}
	if len(again) == 0 {
		return results
	}
	commands = commands[:0]
	for _, i := range again {
		commands = append(commands, s.evalBody(sc, errands[i].keys, errands[i].args))
	}
	for j, r := range s.client.DoMulti(ctx, commands...) {
		results[again[j]] = r
	}
	return results
}

// Where the parts of an answer are: three for all, and four for each note.
const (
	answerEpoch, answerVersion, answerForeign, answerNotes = 0, 1, 2, 3
	noteKey, noteAuthor, noteAge, noteText, noteParts      = 0, 1, 2, 3, 4
)

// read passes on what is in an answer.
func (b *Board) read(
	e *errand, keys []string, result rueidis.RedisResult, heard func(key int, author, note string, age time.Duration),
) (foreign bool, err error) {
	s := b.store
	parts, err := result.ToArray()
	if err != nil {
		return false, withKeys(s.explain(err, e.keys[0]), e.keys[:1])
	}
	if len(parts) < answerNotes || (len(parts)-answerNotes)%noteParts != 0 {
		return false, s.explainReply(errMalformed, e.keys[0])
	}
	epoch, err := parts[answerEpoch].ToString()
	version, err2 := parts[answerVersion].AsInt64()
	other, err3 := parts[answerForeign].AsInt64()
	if errors.Join(err, err2, err3) != nil {
		return false, s.explainReply(errMalformed, e.keys[0])
	}
	for i := answerNotes; i < len(parts); i += noteParts {
		key, err := parts[i+noteKey].AsInt64()
		author, err2 := parts[i+noteAuthor].ToString()
		age, err3 := parts[i+noteAge].AsInt64()
		note, err4 := parts[i+noteText].ToString()
		if errors.Join(err, err2, err3, err4) != nil || key < 1 || int(key) > len(e.index) {
			return false, s.explainReply(errMalformed, e.keys[0])
		}
		heard(e.index[key-1], author, note, time.Duration(age)*time.Millisecond)
	}
	was := &b.places[e.place]
	if was.epoch != "" && was.epoch != epoch {
		b.lost |= 1 << e.place
		if len(e.index) == 0 { // nobody else was asked
			b.lost = 1<<places - 1
		}
	}
	if len(e.index) == 0 {
		if was.epoch != epoch {
			*was = place{epoch: epoch}
		}
		return other == 1, nil
	}
	if was.epoch == epoch && version <= was.version { // by a replica that had not heard of the latest
		b.lost |= 1 << e.place
	}
	known := was.versions
	if was.epoch != epoch || version <= was.version || known == nil || len(known)+len(e.index) > maxVersions {
		known = make(map[string]int64, len(e.index))
	}
	for _, i := range e.index {
		known[keys[i]] = version
	}
	*was = place{epoch: epoch, version: version, versions: known}
	return other == 1, nil
}
