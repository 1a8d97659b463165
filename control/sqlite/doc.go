// Package sqlite keeps the rules of a rules service in one file, with SQLite.
//
//	db, err := sqlite.Open(ctx, "/var/lib/headgate/rules.db")
//
// It needs nothing else to run, so it is what a rules service uses unless it is told otherwise. Several processes may open
// the file, if they run on the same machine and the file is on a disk of it: over a network, locks of files do not hold.
// One writes at a time while all read. A write is on disk when its call returns.
package sqlite
