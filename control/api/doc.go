// Package api is the rules service over HTTP: rules, clients and overrides in a database, who may change them, and how nodes
// hear of it.
//
//	server, err := api.New(api.Config{DB: db, Node: engine, Logins: memory})
//	if err != nil { ... }
//	defer server.Close()
//	http.Handle("/v1/", server) // on the listener of administrators
//
// docs/rules-service.md shows each call, and /openapi.json describes all of them. What is wrong with a call is told as a
// problem (RFC 9457), everything at once, with the path of each field.
//
// # What is promised
//
// Nothing is stored that would not compile: each change is held against the whole namespace first, rules with the clients
// that have limits under them, and committed only if the namespace is still what it was held against. Who sends If-Match
// never overwrites what somebody else has changed meanwhile: he gets 412, with what is there now and the difference.
//
// # Who may do what
//
// Callers show a token, which has one role and some namespaces. A viewer reads, an editor changes rules, clients and
// overrides, an admin also tokens and webhooks; a node fetches its rules and tells how it is. Routes returns the table of it.
// Secrets are random and long, so that a keyed SHA-256 of them is all that is kept. Addresses that fail too often are
// denied for a while, by Headgate itself.
//
// # How nodes hear of a change
//
// GET /v1/watch is a stream of revisions. A node that hears of one fetches what has changed since its own. All watchers
// hang on one watch of the database, and what they then fetch is made once for all of them. Webhooks tell anyone else,
// signed, and again until they are taken; VerifyHook and NewReceiver are for those who take them.
package api
