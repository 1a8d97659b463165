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
	// Schema is the version of the tables. Latest is the version to which Open migrates them.
	Schema, Latest int
}

// Inspect describes a database file without changing it. It returns an error if another program or a newer version of
// Headgate created the file, or if the file is damaged.
func Inspect(ctx context.Context, path string) (result Inspection, err error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&_pragma=query_only(1)")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	var appID, tableCount int
	var quickCheck string
	for _, q := range []struct {
		query string
		into  any
	}{
		{"PRAGMA user_version", &result.Schema},
		{"PRAGMA application_id", &appID},
		{"SELECT count(*) FROM sqlite_master", &tableCount},
		{"PRAGMA quick_check(1)", &quickCheck},
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
	case appID != applicationID && tableCount > 0:
		return result, fmt.Errorf("%s is a database of another program", path)
	case result.Schema > result.Latest:
		return result, fmt.Errorf("%s is from a newer version of headgate: its schema is version %d, and this version knows %d",
			path, result.Schema, result.Latest)
	case quickCheck != "ok":
		return result, fmt.Errorf("%s is damaged: %s", path, quickCheck)
	}
	return result, nil
}
