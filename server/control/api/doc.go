// Package api serves the rules service over HTTP: callers with a token change rules, clients and overrides, and nodes
// fetch them.
//
//	server, err := api.New(api.Config{DB: db, Node: engine, Logins: logins})
//	if err != nil { ... }
//	defer server.Close()
//	http.Handle("/v1/", server) // on the admin listener
//
// docs/rules-api.md shows the calls with examples, and /openapi.json describes all of them. A failed call gets problem
// details (RFC 9457) with the path of every invalid field. Routes returns the calls and the roles that may make them.
//
// The package only translates between HTTP and the packages that do the work: control/edit changes content and
// guarantees that it compiles, control/token authenticates callers, control/feed notifies nodes of changes,
// control/nodes registers nodes, control/nodequery queries their counters, and control/webhook notifies other programs. Its
// internal packages are call, one HTTP call, and trafficapi, the calls about traffic.
//
// A caller that sends If-Match never overwrites a change that it has not seen: it gets 412, the current object, and the
// difference.
package api
