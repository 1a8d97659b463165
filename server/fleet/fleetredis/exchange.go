package fleetredis

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet"
)

var (
	_ fleet.Exchange     = (*Exchange)(nil)
	_ fleet.LossReporter = (*Exchange)(nil)
	_ fleet.ClockSource  = (*Exchange)(nil)
)

//go:embed exchange.lua
var exchangeLua string

// An Exchange is a [fleet.Exchange] in Redis. Create one with [NewExchange].
//
// Each key is a Redis hash with one field per node. All keys of a group are in one cluster slot, so one script call
// exchanges all notes of a group: it writes this node's notes, and returns notes of peers that this node has not read.
// Ages of notes are by the clock of the server.
//
// Each group has a version, which every call increments, and an epoch, which changes when the data is lost or the
// server has another replication id. (The id is unknown if the user of the connection may not run INFO.) By these, an
// Exchange notices lost notes.
type Exchange struct {
	redis       ExchangeRedis
	name        string
	groupKeys   [fleet.KeyGroups]string // the Redis keys of the states of groups
	author      string
	fingerprint string
	rand        func() uint64

	mu     sync.Mutex // held during an exchange
	groups [fleet.KeyGroups]groupState
	lost   uint64 // groups that lost notes since the last call of Lost
	text   []byte // a buffer for the keys and arguments of notes
	ends   []int  // the ends of these in text
}

// A groupState is this node's view of the keys of one group.
type groupState struct {
	epoch   string
	version int64            // the version in the latest reply of this epoch
	read    map[string]int64 // for each key, the version up to which its notes were read
}

// maxRead is the maximum number of keys in groupState.read. When there are more, only the keys of the latest exchange
// are kept, and the notes of other keys are read again when needed.
const maxRead = 1024

// ExchangeOptions are the settings of an Exchange. Author is required.
type ExchangeOptions struct {
	// Name is the name of the fleet, so that several fleets can use one Redis: at most 64 letters, digits and . - _ : /.
	// Default "fleet".
	Name string
	// Author is the author of this node's notes: async.Options.Author or region.Options.Author.
	Author string
	// Secret is the secret of the fleet. Its fingerprint distinguishes fleets that use the same name.
	Secret []byte
	// Rand returns random numbers for the names of epochs. Default math/rand/v2.
	Rand func() uint64
}

const maxAuthorBytes = 128

// An ExchangeRedis is the access of an Exchange to Redis. The simulator has its own.
type ExchangeRedis interface {
	// Prefix returns the start of all keys.
	Prefix() string
	// Run runs exchange.lua. See redisstore.Script.Run.
	Run(ctx context.Context, calls ...redisstore.ScriptCall) []redisstore.ScriptReply
	// Time returns the time of a server, the same one for all nodes.
	Time(ctx context.Context) (time.Time, error)
	// MalformedReply returns an error that says that the server of a key has sent an impossible reply.
	MalformedReply(key string) error
}

// storeRedis is the ExchangeRedis of a store.
type storeRedis struct {
	*redisstore.Store
	script *redisstore.Script
}

// Run implements ExchangeRedis.
func (r storeRedis) Run(ctx context.Context, calls ...redisstore.ScriptCall) []redisstore.ScriptReply {
	return r.script.Run(ctx, calls...)
}

// NewExchange returns an Exchange.
func NewExchange(store *redisstore.Store, o ExchangeOptions) (*Exchange, error) {
	return NewExchangeOver(storeRedis{store, store.NewScript(exchangeLua)}, o)
}

// NewExchangeOver returns an Exchange that accesses Redis in another way than through a store.
func NewExchangeOver(redis ExchangeRedis, o ExchangeOptions) (*Exchange, error) {
	prefix, err := keyPrefix(redis.Prefix(), o.Name)
	if err != nil {
		return nil, err
	}
	if o.Author == "" || len(o.Author) > maxAuthorBytes {
		return nil, fmt.Errorf("fleetredis: ExchangeOptions.Author has %d bytes: want 1 to %d", len(o.Author),
			maxAuthorBytes)
	}
	if o.Rand == nil {
		o.Rand = rand.Uint64
	}
	x := &Exchange{
		redis: redis, name: cmp.Or(o.Name, defaultName), author: o.Author,
		fingerprint: strconv.FormatUint(fleet.Fingerprint(o.Secret), 36), rand: o.Rand,
	}
	for group := range x.groupKeys {
		x.groupKeys[group] = prefix + groupTag(group)
	}
	return x, nil
}

// Time returns the time of a Redis server. All nodes use the same server.
func (x *Exchange) Time(ctx context.Context) (time.Time, error) { return x.redis.Time(ctx) }

// Lost returns the groups of keys that have lost notes since the last call, one bit each.
func (x *Exchange) Lost() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	lost := x.lost
	x.lost = 0
	return lost
}

// Exchange writes notes and reads those of peers. See [fleet.Exchange].
func (x *Exchange) Exchange(
	ctx context.Context, notes []fleet.Note, received func(note int, n fleet.PeerNote),
) (missed []int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	groups, err := splitIntoGroups(len(notes), func(i int) string { return notes[i].Key })
	if err != nil {
		return indices(len(notes)), err
	}
	if len(groups) == 0 {
		_, err = x.redis.Time(ctx) // cheaper than a script: idle nodes do this several times per second
		return nil, err
	}
	foreign := false
	for n, reply := range x.redis.Run(ctx, x.calls(groups, notes)...) {
		g := groups[n]
		foreignGroup, groupErr := false, reply.Err
		if groupErr == nil {
			foreignGroup, groupErr = x.read(g, notes, reply.Values, received)
		}
		foreign = foreign || foreignGroup
		if groupErr != nil {
			x.groups[g.number].read = nil // read all notes again
			missed, err = append(missed, g.index...), errors.Join(err, groupErr)
		}
	}
	if foreign && err == nil {
		err = &fleet.ForeignError{Name: x.name}
	}
	return missed, err
}

// calls returns a script call for each group of notes.
func (x *Exchange) calls(groups []keyGroup, notes []fleet.Note) []redisstore.ScriptCall {
	const headArgs = 4
	x.text, x.ends = x.text[:0], x.ends[:0]
	for _, g := range groups {
		x.appendNotes(g, notes)
	}
	calls := make([]redisstore.ScriptCall, len(groups))
	keys := make([]string, 0, len(groups)+len(notes))
	args := make([]string, 0, headArgs*len(groups)+len(notes))
	text, start, ends := string(x.text), 0, x.ends // one allocation for all keys and arguments of notes
	newEpoch := strconv.FormatUint(x.rand(), 36)
	for n, g := range groups {
		firstKey, firstArg := len(keys), len(args)
		keys = append(keys, x.groupKeys[g.number])
		args = append(args, x.author, x.fingerprint, newEpoch, x.groups[g.number].epoch)
		for range g.index {
			keys, args = append(keys, text[start:ends[0]]), append(args, text[ends[0]:ends[1]])
			start, ends = ends[1], ends[2:]
		}
		calls[n] = redisstore.ScriptCall{Keys: keys[firstKey:], Args: args[firstArg:]}
	}
	return calls
}

// appendNotes appends the keys and arguments of a group of notes to x.text.
func (x *Exchange) appendNotes(g keyGroup, notes []fleet.Note) {
	state := &x.groups[g.number]
	for _, i := range g.index {
		n := &notes[i]
		since := state.read[n.Key]
		if n.ReadAll {
			since = 0
		}
		x.text = appendKeyName(append(x.text, x.groupKeys[g.number]...), n.Key)
		x.ends = append(x.ends, len(x.text))
		x.text = appendNumber(appendNumber(x.text, since), n.Keep.Milliseconds())
		x.text = append(x.text, n.Text...)
		x.ends = append(x.ends, len(x.text))
	}
}

// numberBytes is the size of a number in exchange.lua.
const numberBytes = 6

func appendNumber(b []byte, n int64) []byte {
	n = min(max(n, 0), 1<<(8*numberBytes)-1)
	for shift := 8 * (numberBytes - 1); shift >= 0; shift -= 8 {
		b = append(b, byte(n>>shift))
	}
	return b
}

// A reply of exchange.lua begins with replyHead values, followed by replyNote values for each note.
const replyHead, replyNote = 3, 4

// read calls received for each note in a reply, and reports whether another fleet uses the same name.
func (x *Exchange) read(
	g keyGroup, notes []fleet.Note, reply []string, received func(note int, n fleet.PeerNote),
) (foreign bool, err error) {
	malformed := func() (bool, error) { return false, x.redis.MalformedReply(x.groupKeys[g.number]) }
	if len(reply) < replyHead || (len(reply)-replyHead)%replyNote != 0 {
		return malformed()
	}
	epoch, foreign := reply[0], reply[2] == "1"
	version, err := strconv.ParseInt(reply[1], 10, 64)
	if err != nil {
		return malformed()
	}
	for rest := reply[replyHead:]; len(rest) > 0; rest = rest[replyNote:] {
		key, keyErr := strconv.Atoi(rest[0])
		age, ageErr := strconv.ParseInt(rest[2], 10, 64)
		if keyErr != nil || ageErr != nil || key < 1 || key > len(g.index) {
			return malformed()
		}
		received(g.index[key-1], fleet.PeerNote{
			Author: rest[1], Text: rest[3], Age: time.Duration(age) * time.Millisecond,
		})
	}
	if len(g.index) == 0 {
		x.checkEpoch(epoch)
	} else {
		x.update(g, notes, epoch, version)
	}
	return foreign, nil
}

// checkEpoch handles the epoch in a reply to a call without keys, which is the epoch of group 0.
func (x *Exchange) checkEpoch(epoch string) {
	state := &x.groups[0]
	if state.epoch == epoch {
		return
	}
	if state.epoch != "" {
		x.lost = 1<<fleet.KeyGroups - 1 // all groups: the others were not read, and may be on the same server
	}
	*state = groupState{epoch: epoch}
}

// update records the version up to which the notes of a group were read, and whether notes were lost.
func (x *Exchange) update(g keyGroup, notes []fleet.Note, epoch string, version int64) {
	state := &x.groups[g.number]
	// If the epoch has changed, all notes were lost. If the version is lower, a replica without the latest notes has
	// taken over.
	complete := state.epoch == epoch && version > state.version
	if state.epoch != "" && !complete {
		x.lost |= 1 << g.number
	}
	if !complete || state.read == nil || len(state.read)+len(g.index) > maxRead {
		state.read = make(map[string]int64, len(g.index))
	}
	for _, i := range g.index {
		state.read[notes[i].Key] = version
	}
	state.epoch, state.version = epoch, version
}
