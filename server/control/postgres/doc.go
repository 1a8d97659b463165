// Package postgres stores the rules of a rules service in PostgreSQL, so that several instances can share them.
//
//	db, err := postgres.Open(ctx, "postgres://headgate:secret@db.example.com/headgate", postgres.Options{})
//
// Its tables are named headgate_… and are in the search_path of the URL, in a database with the encoding UTF8. Open
// creates and migrates them.
//
// Instances notify each other of changes with LISTEN and NOTIFY. Where notifications do not arrive, as behind a pooler
// in transaction mode, they poll every few seconds. Behind such a pooler the URL should also have
// default_query_exec_mode=exec.
package postgres
