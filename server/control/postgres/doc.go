// Package postgres stores the rules of a rules service in PostgreSQL. Several instances of the rules service can share
// a database.
//
//	db, err := postgres.Open(ctx, "postgres://headgate:secret@db.example.com/headgate", postgres.Options{})
//
// [Open] creates and migrates the tables. Their names begin with headgate_. They are in the first schema of the
// connection's search_path. The database must have the encoding UTF8.
//
// Instances notify each other of changes with LISTEN and NOTIFY. They also poll every few seconds, because
// notifications do not pass a connection pooler in transaction mode. With such a pooler, add
// default_query_exec_mode=exec to the URL.
package postgres
