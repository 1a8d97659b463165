package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/redisstore/internal/topology"
)

// A script is a Lua script with its SHA-1 hash, which EVALSHA takes.
type script struct {
	body, sha string
	readOnly  bool
}

// First lines of scripts for Redis 7 and later. A server whose memory is full refuses scripts that may write, unless
// they have the flag allow-oom.
const (
	writeLine = "#!lua\n"                 // for scripts that take units
	freeLine  = "#!lua flags=allow-oom\n" // for scripts that give units back
	readLine  = "#!lua flags=no-writes\n" // for scripts that only read
)

// readyBody is a script that does nothing but call TIME, which all other scripts call, too.
const readyBody = "redis.call('TIME') return 1"

// newScript returns a script for a major version of Redis. Scripts for versions before 7 have no first line.
func newScript(major int, firstLine, body string) *script {
	if major >= 7 {
		body = firstLine + body
	}
	sum := sha1.Sum([]byte(body))
	return &script{body: body, sha: hex.EncodeToString(sum[:]), readOnly: firstLine == readLine && major >= 7}
}

// scripts are the scripts for one major version of Redis.
type scripts struct {
	major              int       // 0 if the version is not known
	take, give, peek   []*script // take.lua, by algorithm
	grant, returnGrant []*script // grant.lua, by algorithm; nil for algorithms without grants
	takeAll, peekAll   *script   // takeall.lua
	ready              *script   // changes nothing; a server that can run it can also run take
}

func newScripts(major int) *scripts {
	s := &scripts{major: major}
	for _, a := range headgate.Algorithms() {
		body := algorithm.Lua(a)
		s.take = append(s.take, newScript(major, writeLine, body))
		s.give = append(s.give, newScript(major, freeLine, algorithm.LuaGive(a)))
		s.peek = append(s.peek, newScript(major, readLine, body))
		var grant, returnGrant *script
		if algorithm.Grantable(a) {
			grant = newScript(major, writeLine, algorithm.LuaGrant(a))
			returnGrant = newScript(major, freeLine, algorithm.LuaGrant(a))
		}
		s.grant, s.returnGrant = append(s.grant, grant), append(s.returnGrant, returnGrant)
	}
	all := algorithm.LuaAll()
	s.takeAll = newScript(major, writeLine, all)
	s.peekAll = newScript(major, readLine, all)
	s.ready = newScript(major, writeLine, readyBody)
	return s
}

// all returns each distinct script once.
func (s *scripts) all() []*script {
	list := []*script{s.takeAll, s.peekAll, s.ready}
	for _, byAlgorithm := range [...][]*script{s.take, s.give, s.peek, s.grant, s.returnGrant} {
		list = append(list, byAlgorithm...)
	}
	added := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(sc *script) bool {
		if sc == nil || added[sc.sha] {
			return true
		}
		added[sc.sha] = true
		return false
	})
}

// currentScripts returns the scripts for the servers' version. Until the version is known, it returns the scripts for
// Redis 6, which also run on later versions.
func (s *Store) currentScripts() *scripts {
	if current := s.scripts.Load(); current != nil {
		return current
	}
	s.scripts.CompareAndSwap(nil, newScripts(0))
	return s.scripts.Load()
}

// preload makes the first decisions faster: it reads the secret, and loads the scripts into all primaries. Errors are
// only logged, because a decision reads the secret and loads its script itself if necessary.
func (s *Store) preload(ctx context.Context) {
	_, err := s.begin(ctx) // reads the secret
	if err == nil {
		err = s.loadScripts(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("redis scripts not preloaded, first decisions will be slower", "err", err)
	}
}

// loadScripts loads the scripts into all primaries at the same time, so that one that is unreachable does not keep them
// from the others.
func (s *Store) loadScripts(ctx context.Context) error {
	m, err := s.client.Map()
	if err != nil {
		return err
	}
	errs := make([]error, len(m.Shards))
	var loads sync.WaitGroup
	for i, shard := range m.Shards {
		loads.Go(func() { errs[i] = s.loadScriptsInto(ctx, shard.Primary) })
	}
	loads.Wait()
	return errors.Join(errs...)
}

func (s *Store) loadScriptsInto(ctx context.Context, server *topology.Server) error {
	all := s.currentScripts().all()
	commands := make([]rueidis.Completed, len(all))
	for i, sc := range all {
		commands[i] = s.client.Builder().ScriptLoad().Script(sc.body).Build()
	}
	for _, result := range server.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return s.client.Explain(err, server.Addr())
		}
	}
	return nil
}

// run runs a script on keys of one slot and returns its reply. It sends only the hash of the script. If the server
// replies that it does not know the script, run sends the body.
func (s *Store) run(ctx context.Context, sc *script, keys, args []string) (string, error) {
	withBody := false
	build := func() rueidis.Completed { // DoBuilt calls it again for a retry, because a command can be sent only once
		if withBody {
			return s.evalBody(sc, keys, args)
		}
		return s.evalSHA(sc, keys, args)
	}
	sameServer := len(keys) > 1 // while a slot moves, some of its keys may be on another server than the rest
	result := s.client.DoBuilt(ctx, build, sameServer)
	if isUnknownScript(result.Error()) {
		withBody = true
		result = s.client.DoBuilt(ctx, build, sameServer)
	}
	reply, err := result.ToString()
	if err != nil {
		return "", withKeys(s.explain(err, keys[0]), keys)
	}
	return reply, nil
}

// withKeys adds the keys to an error that is about one of them, but does not say about which one. A server that finds a
// value of the wrong type does not say which key has it.
func withKeys(err error, keys []string) error {
	var e *ServerError
	isNamed := func(key string) bool { return strings.Contains(err.Error(), key) }
	if errors.As(err, &e) && e.OneKey && !slices.ContainsFunc(keys, isNamed) {
		e.Problem = "contains a value that another program has written, at key " + strings.Join(keys, " or ")
	}
	return err
}

func (s *Store) evalSHA(sc *script, keys, args []string) rueidis.Completed {
	b, n := s.client.Builder(), int64(len(keys))
	if sc.readOnly {
		return b.EvalshaRo().Sha1(sc.sha).Numkeys(n).Key(keys...).Arg(args...).Build()
	}
	return b.Evalsha().Sha1(sc.sha).Numkeys(n).Key(keys...).Arg(args...).Build()
}

func (s *Store) evalBody(sc *script, keys, args []string) rueidis.Completed {
	b, n := s.client.Builder(), int64(len(keys))
	if sc.readOnly {
		return b.EvalRo().Script(sc.body).Numkeys(n).Key(keys...).Arg(args...).Build()
	}
	return b.Eval().Script(sc.body).Numkeys(n).Key(keys...).Arg(args...).Build()
}

func isUnknownScript(err error) bool {
	return err != nil && strings.HasPrefix(topology.ReplyText(err), "NOSCRIPT")
}
