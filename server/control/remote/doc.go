// Package remote is a client of a rules service over HTTP, for the command line and the nodes.
//
//	c, err := remote.New(remote.Config{URL: "https://rules.example.com:8084", Token: token, Namespace: "shop"})
//	if err != nil { ... }
//	defer c.Close()
//
//	found, err := c.Get(ctx, remote.Rules, "search-per-user")
//	if err != nil { ... }
//	_, err = c.Put(ctx, remote.Rules, "search-per-user", body, found.Revision) // status 412 if it has changed since
//
// A call fails when its context is done or when Config.Timeout has passed. If the service refuses a call, the error is
// an [*Error] that lists all problems with their positions in the body of the call.
//
// [Client.Watch] yields the revision of each change, and reconnects after an outage. [Client.Snapshot] returns a stream
// of the objects that a node needs, so that even a million objects need little memory.
package remote
