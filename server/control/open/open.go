// Package open opens the database of a rules service by its URL.
//
//	db, err := open.Open(ctx, "rules.db", open.Options{})                                  // a file, with SQLite
//	db, err := open.Open(ctx, "postgres://headgate:secret@db.example.com/headgate", …)     // PostgreSQL
//	db, err := open.Open(ctx, "redis-cluster://a.example.com:6379,b.example.com:6379", …)  // Redis or Valkey
//
// It is not part of package control, because then every program that imports control would contain all drivers.
package open

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/postgres"
	"github.com/headgate/headgate/server/control/redisdb"
	"github.com/headgate/headgate/server/control/sqlite"
)

// Options configure a database. The zero Options are valid.
type Options struct {
	// Logger logs problems that do not prevent the use of a database. Default none.
	Logger *slog.Logger
}

// wantURL describes valid URLs.
const wantURL = "the path of a file, sqlite:PATH, postgres://…, redis://…, rediss://…, redis-sentinel://…, " +
	"redis-cluster://… or unix:///PATH"

// Open opens a database, and creates it if it does not exist. No error contains a password.
func Open(ctx context.Context, url string, o Options) (control.DB, error) {
	if url == "" {
		return nil, errors.New("open the rules: no database: want " + wantURL)
	}
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		if path = strings.TrimPrefix(path, "//"); path == "" {
			return nil, errors.New("open the rules: sqlite: without a path: want " + wantURL)
		}
		return asDB(sqlite.Open(ctx, path))
	}
	scheme, _, ok := strings.Cut(url, "://")
	if !ok {
		return asDB(sqlite.Open(ctx, url))
	}
	switch scheme = strings.ToLower(scheme); scheme {
	case "postgres", "postgresql":
		return asDB(postgres.Open(ctx, url, postgres.Options{Logger: o.Logger}))
	case "redis", "rediss", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster", "unix", "redis+unix":
		return asDB(redisdb.Open(ctx, url, redisdb.Options{Logger: o.Logger}))
	}
	return nil, fmt.Errorf("open the rules: unknown scheme %.32q: want %s", scheme, wantURL)
}

// asDB converts the result of an Open function. If there is an error, it returns a nil interface, not an interface that
// contains a nil pointer.
func asDB[T control.DB](db T, err error) (control.DB, error) {
	if err != nil {
		return nil, err
	}
	return db, nil
}
