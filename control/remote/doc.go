// Package remote calls a rules service over HTTP: what the command line and the nodes use.
//
//	c, err := remote.New(remote.Config{URL: "https://rules.example.com:8084", Token: token, Namespace: "shop"})
//	if err != nil { ... }
//	defer c.Close()
//
//	found, err := c.Get(ctx, remote.Rules, "search-per-user")
//	if err != nil { ... }
//	_, err = c.Put(ctx, remote.Rules, "search-per-user", body, found.Revision) // *Error with status 412: somebody else was faster
//
// Every call ends by its context or by Config.Timeout, whichever is first. What the service refuses is an [*Error], with the
// places of what is wrong.
//
// [Client.Watch] yields the revision of each change and goes on after the service was away. [Client.Snapshot] reads what a
// node is sent, one object after the other, so that a million take no more room than one.
package remote
