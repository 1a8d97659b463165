// Package control contains the data model of the rules service and the interface to its database. The service stores
// rules, registered clients and overrides. Nodes, the processes that limit requests, fetch them and follow changes.
//
// A database contains objects: rules, clients, temporary overrides, suspensions, tokens and webhooks. Each object
// belongs to a namespace and has a JSON body. A Change modifies objects of one namespace. It is committed completely or
// not at all, and gets the next revision number. It stays in the log with its author and the previous bodies, until
// the log is pruned. The log is the history, the audit log, and the source of the changes that nodes receive.
//
//	db, err := sqlite.Open(ctx, "rules.db")
//	if err != nil { ... }
//	change := control.Change{
//		Namespace: "shop", Base: control.AnyRevision, Actor: "alice",
//		Ops: []control.Op{{Kind: control.KindRule, ID: "search", Base: control.Absent, Body: body}},
//	}
//	err = db.Commit(ctx, &change) // a *Conflict if the rule exists already
//
// The packages control/sqlite, control/postgres and control/redisdb implement DB; control/dbtest is their common test
// suite. control/edit changes rules and clients, control/api serves them over HTTP, and control/follow keeps the rules
// of a node up to date.
package control
