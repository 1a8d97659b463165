package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A script is what Redis runs for one call.
type script struct {
	body, sha string
	readOnly  bool
}

// What Redis 7 and later want to know of a script beforehand, in its first line. One that says nothing is refused when
// memory is full, before it has done anything.
const (
	writes  = "#!lua\n"
	frees   = "#!lua flags=allow-oom\n"
	noWrite = "#!lua flags=no-writes\n"
)

// readyBody does what every script does, and nothing else.
const readyBody = "redis.call('TIME') return 1"

func newScript(major int, shebang, body string) *script {
	if major >= 7 {
		body = shebang + body
	}
	sum := sha1.Sum([]byte(body)) // Redis names scripts so
	return &script{body: body, sha: hex.EncodeToString(sum[:]), readOnly: shebang == noWrite && major >= 7}
}

// scripts are all scripts of one version of Redis.
type scripts struct {
	step, give, look []*script // by algorithm
	grant            []*script // nil for an algorithm that cannot
	takeAll, lookAll *script
	ready            *script // does nothing, and is run only where step is
}

func newScripts(major int) *scripts {
	var s scripts
	for _, a := range headgate.Algorithms() {
		body := algorithm.Lua(a)
		s.step = append(s.step, newScript(major, writes, body))
		s.give = append(s.give, newScript(major, frees, algorithm.LuaGive(a)))
		s.look = append(s.look, newScript(major, noWrite, body))
		var grant *script
		if algorithm.Grantable(a) {
			grant = newScript(major, writes, algorithm.LuaGrant(a))
		}
		s.grant = append(s.grant, grant)
	}
	all := algorithm.LuaAll()
	s.takeAll = newScript(major, writes, all)
	s.lookAll = newScript(major, noWrite, all)
	s.ready = newScript(major, writes, readyBody)
	return &s
}

// run runs a script on keys of one slot and returns its answer. A server that does not know the script is sent it whole;
// that is no second try, for the first one did nothing.
func (s *Store) run(ctx context.Context, sc *script, keys, args []string) (string, error) {
	result := s.send(ctx, sc, false, keys, args)
	if unknownScript(result.Error()) {
		result = s.send(ctx, sc, true, keys, args)
	}
	answer, err := result.ToString()
	if err != nil {
		return "", withKeys(s.conn.explain(err, s.conn.shardOf(s.conn.slotOf(keys[0]))), keys)
	}
	return answer, nil
}

// send sends a script, whole or by its name, and again if a server wants it so.
func (s *Store) send(ctx context.Context, sc *script, whole bool, keys, args []string) rueidis.RedisResult {
	build := func() rueidis.Completed {
		if whole {
			return s.wholeCommand(sc, keys, args)
		}
		return s.command(sc, keys, args)
	}
	t, n, result := s.conn.send(ctx, build(), len(keys) > 1)
	if n == nil {
		return result
	}
	again := build()
	return t.again(ctx, again.Commands(), n, result)
}

// withKeys adds to an error that is about a key which one it may be, as a server that finds a value of another type there
// does not say so.
func withKeys(err error, keys []string) error {
	var e *ServerError
	if errors.As(err, &e) && e.ofKey && !slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(err.Error(), key) }) {
		e.What = "has values of somebody else under " + strings.Join(keys, " or ")
	}
	return err
}

func (s *Store) command(sc *script, keys, args []string) rueidis.Completed {
	if sc.readOnly {
		return s.conn.b().EvalshaRo().Sha1(sc.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	}
	return s.conn.b().Evalsha().Sha1(sc.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

func (s *Store) wholeCommand(sc *script, keys, args []string) rueidis.Completed {
	if sc.readOnly {
		return s.conn.b().EvalRo().Script(sc.body).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	}
	return s.conn.b().Eval().Script(sc.body).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

func unknownScript(err error) bool {
	return err != nil && strings.HasPrefix(replyText(err), "NOSCRIPT")
}
