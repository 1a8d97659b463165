// Package open opens the database of a rules service that a URL names.
//
//	db, err := open.Open(ctx, "rules.db", open.Options{})                                  // a file, with SQLite
//	db, err := open.Open(ctx, "postgres://headgate:secret@db.example.com/headgate", …)     // PostgreSQL
//	db, err := open.Open(ctx, "redis-cluster://a.example.com:6379,b.example.com:6379", …)  // Redis or Valkey
//
// It is apart from package control so that only who opens databases has to be built with all of them.
package open

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/postgres"
	"github.com/headgate/headgate/control/redisdb"
	"github.com/headgate/headgate/control/sqlite"
)

// Options say how a database is used. The zero Options are good for most.
type Options struct {
	// Logger hears of what is wrong with a database that works all the same. Default none.
	Logger *slog.Logger
}

// wanted is what can be opened.
const wanted = "the path of a file, sqlite:PATH, postgres://…, redis://…, rediss://…, redis-sentinel://…, redis-cluster://… or unix:///PATH"

// Open opens a database, and makes it if there is none. No error has a password in it.
func Open(ctx context.Context, url string, o Options) (control.DB, error) {
	if url == "" {
		return nil, errors.New("open the rules: no database: want " + wanted)
	}
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		if path = strings.TrimPrefix(path, "//"); path == "" {
			return nil, errors.New("open the rules: sqlite: without a path: want " + wanted)
		}
		return only(sqlite.Open(ctx, path))
	}
	scheme, _, ok := strings.Cut(url, "://")
	if !ok {
		return only(sqlite.Open(ctx, url))
	}
	switch scheme = strings.ToLower(scheme); scheme {
	case "postgres", "postgresql":
		return only(postgres.Open(ctx, url, postgres.Options{Logger: o.Logger}))
	case "redis", "rediss", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster", "unix", "redis+unix":
		return only(redisdb.Open(ctx, url, redisdb.Options{Logger: o.Logger}))
	}
	return nil, fmt.Errorf("open the rules: unknown scheme %.32q: want %s", scheme, wanted)
}

// only keeps a pointer that is nil from becoming a database that is not.
func only[T control.DB](db T, err error) (control.DB, error) {
	if err != nil {
		return nil, err
	}
	return db, nil
}
