// Package remote is a client of a rules service over HTTP, for the command line and the nodes.
//
//	c, err := remote.New(remote.Config{URL: "https://rules.example.com:8084", Token: token, Namespace: "shop"})
//	if err != nil { ... }
//	defer c.Close()
//
//	found, err := c.Get(ctx, remote.Rules, "search-per-user")
//	if err != nil { ... }
//	_, err = c.Put(ctx, remote.Rules, "search-per-user", body, found.Revision) // *Error: 412 if changed meanwhile
//
// Every call ends with its context or after Config.Timeout. A refused call returns an [*Error] with the positions of
// all problems.
//
// [Client.Watch] yields the revision of each change and reconnects after an outage. [Client.Snapshot] reads the rules
// of a node one object at a time, so a million objects need no more memory than one.
package remote
