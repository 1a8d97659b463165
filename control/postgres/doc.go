// Package postgres keeps the rules of a rules service in PostgreSQL, so that several instances of it can share them.
//
//	db, err := postgres.Open(ctx, "postgres://headgate:secret@db.example.com/headgate?sslmode=verify-full", postgres.Options{})
//
// Its tables are named headgate_… and live where the URL's search_path leads, in a database whose encoding is UTF8. They are
// made and brought up to date when it is opened.
//
// Instances tell each other of changes by LISTEN and NOTIFY. Where that does not get through, as behind a pooler that hands
// out connections by the transaction, they look every few seconds. Behind such a pooler the URL should also say
// default_query_exec_mode=exec.
package postgres
