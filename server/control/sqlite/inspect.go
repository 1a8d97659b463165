package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
)

// An Inspection describes a database file.
type Inspection struct {
	// Schema is the version of its tables, and Latest the version that this program uses. Open migrates older tables.
	Schema, Latest int
}

// Inspect checks a file without changing it: that it is a database of this program, that it is not newer than the
// program, and that its pages are intact.
func Inspect(ctx context.Context, path string) (result Inspection, err error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&_pragma=query_only(1)")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	var mark, count int
	var intact string
	for _, q := range []struct {
		query string
		into  any
	}{
		{"PRAGMA user_version", &result.Schema},
		{"PRAGMA application_id", &mark},
		{"SELECT count(*) FROM sqlite_master", &count},
		{"PRAGMA quick_check(1)", &intact},
	} {
		if err := db.QueryRowContext(ctx, q.query).Scan(q.into); err != nil {
			return result, fmt.Errorf("read %s: %w", path, err)
		}
	}
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return result, err
	}
	result.Latest = len(files)
	switch {
	case mark != applicationID && count > 0:
		return result, fmt.Errorf("%s is a database of another program", path)
	case result.Schema > result.Latest:
		return result, fmt.Errorf("%s is from a newer version of headgate: its schema is version %d, and this version knows %d",
			path, result.Schema, result.Latest)
	case intact != "ok":
		return result, fmt.Errorf("%s is damaged: %s", path, intact)
	}
	return result, nil
}
