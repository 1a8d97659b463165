// Package sqlite stores the rules of a rules service in one file, with SQLite.
//
//	db, err := sqlite.Open(ctx, "/var/lib/headgate/rules.db")
//
// It is the default database of a rules service, because it needs no server. Several processes on the same machine may
// open the file. The file must be on a local disk, because file locks are not reliable over a network. Only one process
// can write at a time, but writes do not block reads. A write is on disk when its call returns.
package sqlite
