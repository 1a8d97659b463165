// Package api is the HTTP API of the rules service. People and programs change rules, clients and overrides with it,
// and nodes fetch them.
//
//	server, err := api.New(api.Config{DB: db, Node: engine, Logins: logins})
//	if err != nil { ... }
//	defer server.Close()
//	http.Handle("/v1/", server) // on the admin listener
//
// docs/rules-api.md has examples of the calls, and /openapi.json describes all of them. [Routes] returns the calls and
// the roles that may make them. The response to a failed call has problem details (RFC 9457) with the path of each
// invalid field. A caller can avoid overwriting the changes of others by sending If-Match. If the object has changed,
// the response has status 412, the current object, and the difference.
//
// The package translates between HTTP and the packages that do the work: control/edit checks and commits changes,
// control/token authenticates callers, control/feed notifies nodes of changes, control/nodes registers nodes,
// control/nodequery queries their counters, and control/webhook notifies other programs.
package api
