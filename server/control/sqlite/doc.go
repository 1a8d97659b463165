// Package sqlite stores the rules of a rules service in one file, with SQLite.
//
//	db, err := sqlite.Open(ctx, "/var/lib/headgate/rules.db")
//
// It needs no server, so it is the default of a rules service. Several processes may open the file if they run on the
// same machine and the file is on a local disk: file locks do not work reliably over a network. One process writes at a
// time while all read. A write is on disk when its call returns.
package sqlite
