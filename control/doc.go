// Package control is the rules service: what service owners say of limits is kept in a database, changed by an API, and
// told to every node at once.
//
// What it keeps are objects: rules, registered clients, temporary overrides, tokens and webhooks, each of a namespace and
// written as JSON. They change in Changes. A Change is applied whole or not at all, gets the next revision, and stays in
// the log, with who made it and what was there before: that log is the history, the audit and what nodes are told.
//
//	db, err := sqlite.Open(ctx, "rules.db")
//	if err != nil { ... }
//	change := control.Change{
//		Namespace: "shop", Base: control.Any, Actor: "alice",
//		Ops: []control.Op{{Kind: control.KindRule, ID: "search", Base: control.Absent, Body: body}},
//	}
//	err = db.Commit(ctx, &change) // *Conflict: somebody else was faster
//
// A DB is one of control/sqlite, control/postgres and control/redisdb; package control/dbtest holds what all of them are
// held to. Package control/api serves it, and package control/follow is the node's side.
package control
