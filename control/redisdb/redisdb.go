package redisdb

import (
	"context"
	_ "embed" // for the scripts
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/internal/pulse"
)

const (
	// connecting is how long a connection may take.
	connecting = 5 * time.Second
	// calling is how long a call may take whose caller says nothing.
	calling = 30 * time.Second
	// streaming is the same for those that carry everything.
	streaming = 10 * time.Minute
	// poll is how often a watch looks by itself.
	poll = 5 * time.Second
	// form is the version of how things are kept.
	form = 1
)

// Options say how a database is used. The zero Options are good for most.
type Options struct {
	// Prefix begins the names of all keys, so that several rules services can share a server. Default "headgate".
	Prefix string
	// Logger hears when word of changes does not get through, and of a server that may lose what it is told. Default none.
	Logger *slog.Logger
}

// A DB is a database of rules. It is safe for concurrent use.
type DB struct {
	name   string
	client rueidis.Client
	tag    string
	look   int // lookAt, but in tests
	log    *slog.Logger
	pulse  pulse.Pulse
	cancel context.CancelFunc // of the listener
	done   sync.WaitGroup
}

var _ control.DB = (*DB)(nil)

// The scripts. Those that only read may be sent again when a connection is lost; a change may not.
var (
	//go:embed commit.lua
	commitText string
	//go:embed page.lua
	pageText string
	//go:embed firsts.lua
	firstsText string
	//go:embed since.lua
	sinceText string
	//go:embed prune.lua
	pruneText string
	//go:embed putstate.lua
	putStateText string
	//go:embed states.lua
	statesText string
	//go:embed finish.lua
	finishText string

	commitScript   = rueidis.NewLuaScript(commitText)
	pageScript     = rueidis.NewLuaScriptRetryable(pageText)
	firstsScript   = rueidis.NewLuaScriptRetryable(firstsText)
	sinceScript    = rueidis.NewLuaScriptRetryable(sinceText)
	pruneScript    = rueidis.NewLuaScript(pruneText)
	putStateScript = rueidis.NewLuaScriptRetryable(putStateText)
	statesScript   = rueidis.NewLuaScriptRetryable(statesText)
	finishScript   = rueidis.NewLuaScript(finishText)
	// What is kept of a state is dropped together, so that nobody meets a part of it.
	dropStateScript = rueidis.NewLuaScriptRetryable("redis.call('HDEL', KEYS[1], ARGV[1]) redis.call('ZREM', KEYS[2], ARGV[1]) return redis.call('ZREM', KEYS[3], ARGV[1])")
	infoScript      = rueidis.NewLuaScriptRetryable("return redis.call('INFO', ARGV[1])")
)

// Open connects to a server, or to servers: redis://, rediss://, redis-sentinel://, redis-cluster:// or unix://, as --store
// has them. What a newer version has written is control.ErrNewer.
func Open(ctx context.Context, url string, o Options) (*DB, error) {
	option, name, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if o.Prefix == "" {
		o.Prefix = "headgate"
	}
	if strings.ContainsAny(o.Prefix, "{}\x00") {
		return nil, fmt.Errorf("open %s: prefix %q: want no braces", name, o.Prefix)
	}
	db := &DB{name: "redis " + name, tag: "{" + o.Prefix + ":rules}:", look: lookAt, log: o.Logger}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	if db.client, err = rueidis.NewClient(option); err != nil {
		return nil, db.fault("open", err)
	}
	if err := db.check(ctx); err != nil {
		db.client.Close()
		return nil, err
	}
	listening, cancel := context.WithCancel(context.WithoutCancel(ctx))
	db.cancel = cancel
	db.done.Go(func() { db.listen(listening) })
	return db, nil
}

// check marks the database as one of this form, or finds that it is of another, and warns of a server that may lose it.
func (db *DB) check(ctx context.Context) error {
	ctx, cancel := bounded(ctx, calling)
	defer cancel()
	err := db.client.Do(ctx, db.client.B().Hsetnx().Key(db.key("progress")).Field("form").Value(strconv.Itoa(form)).Build()).Error()
	if err != nil {
		return db.fault("open", err)
	}
	have, err := db.client.Do(ctx, db.client.B().Hget().Key(db.key("progress")).Field("form").Build()).AsInt64()
	if err != nil {
		return db.fault("open", err)
	}
	if have > form {
		return fmt.Errorf("open %s: %w of headgate: its form is number %d, and this version knows %d; run the newer version, or restore a backup that was made before it ran",
			db.name, control.ErrNewer, have, form)
	}
	for _, warning := range db.warnings(ctx) {
		db.log.Warn(warning, "database", db.name)
	}
	return nil
}

// warnings says in plain words how the server may lose what it is told.
func (db *DB) warnings(ctx context.Context) []string {
	var list []string
	info := func(section string) string {
		text, err := infoScript.Exec(ctx, db.client, []string{db.key("progress")}, []string{section}).ToString()
		if err != nil {
			db.log.Debug("the server does not say how it keeps data", "database", db.name, "err", err)
		}
		return text
	}
	if strings.Contains(info("persistence"), "aof_enabled:0") {
		list = append(list, "Redis keeps no append-only file: changes of rules since its last save are lost if it stops; set appendonly yes and appendfsync always, or keep rules in PostgreSQL or SQLite")
	} else if sync, err := db.client.Do(ctx, db.client.B().ConfigGet().Parameter("appendfsync").Build()).AsStrMap(); err == nil && sync["appendfsync"] != "always" {
		// Where the server is not asked such things, nobody knows.
		list = append(list, "Redis writes its append-only file now and then: changes of rules of the last seconds are lost if it stops; set appendfsync always")
	}
	memory := info("memory")
	if strings.Contains(memory, "maxmemory_policy:allkeys") && !strings.Contains(memory, "maxmemory:0\r") {
		list = append(list, "Redis may evict rules when its memory is full; set maxmemory-policy noeviction")
	}
	return list
}

// key returns the name of a key. All share a tag, and so a slot of a cluster.
func (db *DB) key(parts ...string) string { return db.tag + strings.Join(parts, ":") }

// channel is where instances tell each other of changes.
func (db *DB) channel() string { return db.key("changed") }

// Name says which server it is.
func (db *DB) Name() string { return db.name }

// Writable returns nil: Redis refuses writes itself, and no sooner than they come.
func (db *DB) Writable(context.Context) error { return nil }

// Close ends it. Watches end with it.
func (db *DB) Close() error {
	db.pulse.Close()
	db.cancel()
	db.done.Wait()
	db.client.Close()
	return nil
}

// Watch yields revisions: of all instances as soon as Redis tells, and within seconds if it does not.
func (db *DB) Watch(ctx context.Context) iter.Seq[int64] {
	return db.pulse.Watch(ctx, pulse.Times{Poll: poll, Ask: calling}, func(ctx context.Context) (int64, error) {
		last, _, err := db.Revision(ctx, "")
		return last, err
	})
}

// bounded gives a call whose caller set no deadline one.
func bounded(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, most)
}

// fault wraps an error of Redis or of the network with what was being done.
func (db *DB) fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	if said, ok := rueidis.IsRedisErr(err); ok {
		// OOM is a memory that is full, MISCONF a disk that cannot be written to. A script may say it in other words first.
		if text := said.Error(); strings.Contains(text, "OOM ") || strings.Contains(text, "MISCONF ") {
			return fmt.Errorf("%s %s: %w: %w", doing, db.name, control.ErrFull, err)
		} else if strings.Contains(text, "READONLY ") || strings.Contains(text, "NOREPLICAS ") {
			return fmt.Errorf("%s %s: %w: %w", doing, db.name, control.ErrUnwritable, err)
		}
	}
	return fmt.Errorf("%s %s: %w", doing, db.name, err)
}

// errReply is for an answer of a script that is not of the form it should have.
var errReply = errors.New("an answer that makes no sense")

// kindNames are all kinds, in the order of the touched keys.
func kindNames() []string {
	var names []string
	for _, kind := range control.Kinds() {
		names = append(names, string(kind))
	}
	return names
}

// touched returns the keys that tell when each object of a namespace was last changed, one for each kind.
func (db *DB) touched(namespace string) []string {
	var keys []string
	for _, kind := range kindNames() {
		keys = append(keys, db.key("touched", kind, namespace))
	}
	return keys
}
