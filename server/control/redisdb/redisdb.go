package redisdb

import (
	"cmp"
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

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/notify"
	"github.com/headgate/headgate/server/control/internal/tables"
)

const (
	// connectTimeout is the timeout of a connection attempt, unless the URL has one.
	connectTimeout = 5 * time.Second
	// pollInterval is the interval at which a watch polls, in case a notification is lost.
	pollInterval = 5 * time.Second
	// formatVersion is the version of the storage format.
	formatVersion = 1
)

// Options configure a database. The zero Options are valid.
type Options struct {
	// Prefix is part of the names of all keys. Several rules services can share a server with different prefixes. Default
	// "headgate".
	Prefix string
	// Logger logs when the server no longer sends notifications, and when its settings risk losing data. Default none.
	Logger *slog.Logger
}

// A DB is a database of rules. It is safe for concurrent use.
type DB struct {
	name    string
	client  rueidis.Client
	tag     string // beginning of all keys; the part in braces is the hash tag
	batch   int    // readBatch; only tests change it
	log     *slog.Logger
	changes notify.Notifier
	cancel  context.CancelFunc // ends the listener
	done    sync.WaitGroup
}

var _ control.DB = (*DB)(nil)

// The scripts. Retryable scripts are sent again if the connection is lost. Scripts that would do something else the
// second time are not retryable.
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
	// Delete all entries of a state at once, so that no reader sees only some of them.
	dropStateScript = rueidis.NewLuaScriptRetryable(`
		redis.call('HDEL', KEYS[1], ARGV[1]) redis.call('ZREM', KEYS[2], ARGV[1])
		return redis.call('ZREM', KEYS[3], ARGV[1])`)
	infoScript = rueidis.NewLuaScriptRetryable("return redis.call('INFO', ARGV[1])")
)

// Open connects to the servers of a URL: redis://, rediss://, redis-sentinel://, redis-cluster:// or unix://, as in
// --store. It returns control.ErrNewerSchema if a newer version of Headgate has written the data.
func Open(ctx context.Context, url string, o Options) (*DB, error) {
	option, name, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	o.Prefix = cmp.Or(o.Prefix, "headgate")
	if strings.ContainsAny(o.Prefix, "{}\x00") {
		return nil, fmt.Errorf("open %s: prefix %q: want no braces and no NUL", name, o.Prefix)
	}
	db := &DB{
		name: "redis " + name, tag: "{" + o.Prefix + ":rules}:", batch: readBatch,
		log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
	}
	if db.client, err = rueidis.NewClient(option); err != nil {
		return nil, db.fault("open", err)
	}
	if err := db.check(ctx); err != nil {
		db.client.Close()
		return nil, err
	}
	listenCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	db.cancel = cancel
	db.done.Go(func() { db.listen(listenCtx) })
	return db, nil
}

// check checks the version of the stored format, or writes it to a new database. It logs a warning if the server may
// lose data.
func (db *DB) check(ctx context.Context) error {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	err := db.client.Do(ctx, db.client.B().Hsetnx().Key(db.key("progress")).Field("form").Value(
		strconv.Itoa(formatVersion)).Build()).Error()
	if err != nil {
		return db.fault("open", err)
	}
	have, err := db.client.Do(ctx, db.client.B().Hget().Key(db.key("progress")).Field("form").Build()).AsInt64()
	if err != nil {
		return db.fault("open", err)
	}
	if have > formatVersion {
		return fmt.Errorf("open %s: %w of headgate: its format is version %d, and this version knows %d; "+
			"run the newer version, or restore a backup from before its first start",
			db.name, control.ErrNewerSchema, have, formatVersion)
	}
	for _, warning := range db.warnings(ctx) {
		db.log.Warn(warning, "database", db.name)
	}
	return nil
}

// warnings describes the settings of the server with which it may lose data.
func (db *DB) warnings(ctx context.Context) []string {
	var list []string
	info := func(section string) string {
		text, err := infoScript.Exec(ctx, db.client, []string{db.key("progress")}, []string{section}).ToString()
		if err != nil {
			db.log.Debug("the server does not report its persistence settings", "database", db.name, "err", err)
		}
		return text
	}
	if strings.Contains(info("persistence"), "aof_enabled:0") {
		list = append(list, "Redis has no append-only file: rule changes since its last save are lost if it stops; "+
			"set appendonly yes and appendfsync always, or store rules in PostgreSQL or SQLite")
	} else if sync, err := db.client.Do(ctx, db.client.B().ConfigGet().Parameter(
		"appendfsync").Build()).AsStrMap(); err == nil && sync["appendfsync"] != "always" {
		// Some hosted servers refuse CONFIG GET. Then there is no warning.
		list = append(list, "Redis does not sync its append-only file at each write: rule changes of the last seconds are "+
			"lost if it stops; set appendfsync always")
	}
	memory := info("memory")
	if strings.Contains(memory, "maxmemory_policy:allkeys") && !strings.Contains(memory, "maxmemory:0\r") {
		list = append(list, "Redis may evict rules when its memory is full; set maxmemory-policy noeviction")
	}
	return list
}

// key returns the name of a key. All keys have the same hash tag, so in a cluster they are on one server.
func (db *DB) key(parts ...string) string { return db.tag + strings.Join(parts, ":") }

// channel returns the notification channel of all instances.
func (db *DB) channel() string { return db.key("changed") }

// Name returns the URL of the server without secrets.
func (db *DB) Name() string { return db.name }

// Writable returns nil, because only a write can show whether Redis accepts writes.
func (db *DB) Writable(context.Context) error { return nil }

// Close closes the database and ends all watches.
func (db *DB) Close() error {
	db.changes.Close()
	db.cancel()
	db.done.Wait()
	db.client.Close()
	return nil
}

// Watch implements control.DB. It yields a revision immediately if Redis sends a notification, otherwise within
// pollInterval.
func (db *DB) Watch(ctx context.Context) iter.Seq[int64] {
	return db.changes.Watch(ctx, notify.Timing{Poll: pollInterval, Timeout: tables.CallTimeout},
		func(ctx context.Context) (int64, error) {
			last, _, err := db.Revision(ctx, "")
			return last, err
		})
}

// fault adds the operation and the error of package control, if there is one, to an error of Redis or the network.
func (db *DB) fault(operation string, err error) error {
	if err == nil {
		return nil
	}
	if redisErr, ok := rueidis.IsRedisErr(err); ok {
		// OOM means that the memory is full, and MISCONF that the disk cannot be written. Errors in a script have a prefix.
		if text := redisErr.Error(); strings.Contains(text, "OOM ") || strings.Contains(text, "MISCONF ") {
			return fmt.Errorf("%s %s: %w: %w", operation, db.name, control.ErrFull, err)
		} else if strings.Contains(text, "READONLY ") || strings.Contains(text, "NOREPLICAS ") {
			return fmt.Errorf("%s %s: %w: %w", operation, db.name, control.ErrUnwritable, err)
		}
	}
	return fmt.Errorf("%s %s: %w", operation, db.name, err)
}

// errReply means that a script's reply has the wrong form.
var errReply = errors.New("malformed reply")

// kindNames returns all kinds, in the order of the touched keys.
func kindNames() []string {
	var names []string
	for _, kind := range control.Kinds() {
		names = append(names, string(kind))
	}
	return names
}

// touched returns the keys with the last revision of each object of a namespace, one key per kind.
func (db *DB) touched(namespace string) []string {
	var keys []string
	for _, kind := range kindNames() {
		keys = append(keys, db.key("touched", kind, namespace))
	}
	return keys
}
