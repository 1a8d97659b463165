// Package control is the rules service: it stores rules, registered clients and overrides in a database, and nodes
// follow it.
//
// A database contains objects: rules, clients, temporary overrides, tokens and webhooks. Each belongs to a namespace
// and has a body in JSON. Objects change in Changes. A Change is committed completely or not at all, gets the next
// revision, and stays in the log with its author and the bodies before it. The log is the history, the audit log, and
// the source of what nodes receive.
//
//	db, err := sqlite.Open(ctx, "rules.db")
//	if err != nil { ... }
//	change := control.Change{
//		Namespace: "shop", Base: control.Any, Actor: "alice",
//		Ops: []control.Op{{Kind: control.KindRule, ID: "search", Base: control.Absent, Body: body}},
//	}
//	err = db.Commit(ctx, &change) // *Conflict: somebody else has changed it meanwhile
//
// The databases are control/sqlite, control/postgres and control/redisdb; control/dbtest is their common test suite.
// control/edit changes content, control/api serves it over HTTP, and control/follow is the node's side.
package control
