package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// A Script is a Lua script of another package, which keeps its own data in the store's Redis. The keys of this data
// should begin with [Store.Prefix] and a colon. Create a Script with [Store.NewScript].
type Script struct {
	store  *Store
	script *script
}

// NewScript returns a Script with the given body. The script may read and write only the keys of its call, and must
// return a list of strings and integers.
func (s *Store) NewScript(lua string) *Script {
	return &Script{store: s, script: newScript(s.currentScripts().major, writeLine, lua)}
}

// A ScriptCall is one call of a Script. It has at least one key. In a cluster, all keys of a call must be in one slot.
type ScriptCall struct{ Keys, Args []string }

// A ScriptReply is the reply to a ScriptCall.
type ScriptReply struct {
	Values []string // integers are in decimal
	Err    error
}

// Run makes all calls and returns their replies in the order of the calls. Calls to one server are sent together.
func (sc *Script) Run(ctx context.Context, calls ...ScriptCall) []ScriptReply {
	s, replies := sc.store, make([]ScriptReply, len(calls))
	err := s.checkOpen(ctx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		for i := range replies {
			replies[i].Err = err
		}
		return replies
	}
	commands := make([]rueidis.Completed, len(calls))
	for i, c := range calls {
		commands[i] = s.evalSHA(sc.script, c.Keys, c.Args)
	}
	results := s.client.DoMulti(ctx, commands...)
	var unknown []int
	commands = commands[:0]
	for i, c := range calls {
		if isUnknownScript(results[i].Error()) {
			unknown, commands = append(unknown, i), append(commands, s.evalBody(sc.script, c.Keys, c.Args))
		}
	}
	if len(unknown) > 0 {
		for j, result := range s.client.DoMulti(ctx, commands...) {
			results[unknown[j]] = result
		}
	}
	for i, c := range calls {
		replies[i] = s.scriptReply(results[i], c.Keys[0])
	}
	return replies
}

func (s *Store) scriptReply(result rueidis.RedisResult, key string) ScriptReply {
	list, err := result.ToArray()
	if err != nil {
		return ScriptReply{Err: withKeys(s.explain(err, key), []string{key})}
	}
	values := make([]string, len(list))
	for i := range list {
		if n, err := list[i].ToInt64(); err == nil {
			values[i] = strconv.FormatInt(n, 10)
		} else if values[i], err = list[i].ToString(); err != nil {
			return ScriptReply{Err: s.MalformedReply(key)}
		}
	}
	return ScriptReply{Values: values}
}

// MalformedReply returns an error that says that the server of a key sent a reply that the script cannot have returned.
func (s *Store) MalformedReply(key string) error { return s.explainReply(errMalformed, key) }

// Prefix returns the start of all keys of the store.
func (s *Store) Prefix() string { return s.prefix }

// Time returns the time of a primary. In a cluster this is the primary of slot 0, so all callers read the same clock.
func (s *Store) Time(ctx context.Context) (time.Time, error) {
	if err := s.checkOpen(ctx); err != nil {
		return time.Time{}, err
	}
	// The client library does not treat an Arbitrary command as read-only, so the command does not go to a replica.
	parts, err := s.client.Do(ctx, s.client.Builder().Arbitrary("TIME").Build()).AsStrSlice()
	if err != nil {
		return time.Time{}, s.explain(err, "")
	}
	now, ok := parseTime(parts)
	if !ok {
		return time.Time{}, s.MalformedReply("")
	}
	return now, nil
}

// parseTime returns the time in a reply to TIME, which has seconds and microseconds.
func parseTime(parts []string) (now time.Time, ok bool) {
	if len(parts) != 2 {
		return time.Time{}, false
	}
	seconds, err1 := strconv.ParseInt(parts[0], 10, 64)
	micros, err2 := strconv.ParseInt(parts[1], 10, 64)
	return time.Unix(seconds, micros*int64(time.Microsecond)), err1 == nil && err2 == nil
}

// DeriveSecret returns a secret for a purpose, which is derived from the store's secret. All stores that share limits
// return the same secret, and nobody without the store's secret can compute it.
func (s *Store) DeriveSecret(ctx context.Context, purpose string) ([]byte, error) {
	keys, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	h := keys.macs.Get().(*mac)
	defer keys.macs.Put(h)
	const part = 1 << 20 // no key has so many parts, so no key has this hash
	sum := h.sum("headgate", purpose, part)
	return sum[:], nil
}
