// Package follow keeps a node's rules up to date with the rules service.
//
//	f, err := follow.Open(ctx, follow.Config{Source: follow.Remote(client), Dir: dir, Apply: engine.SetRules})
//	if err != nil { ... }
//	defer f.Close()
//	err = f.Run(ctx) // until ctx ends
//
// A [Source] is a remote rules service, or a database in the same process. It signals changes; the [Follower] then
// fetches and compiles them, and puts them in force completely or not at all. It also asks every ten seconds, in case
// a signal was lost, and immediately when [Follower.Refresh] is called.
//
// A change is usually small: a changed client changes only that client, and no rule is compiled. If the service no
// longer has the history, or the node has no rules yet, everything is sent, one object at a time.
//
// # Failures
//
// The rules in force stay, and [Follower.Status] and the heartbeats say what is wrong: if the service is unreachable,
// if data was cut off or damaged in transit (it has a checksum), or if this version does not understand the rules. A
// service that had rules and is now at revision 0 has lost them: deleting all rules creates a revision.
//
// With a directory, the node stores the last rules in a file, and starts from it when the service is unreachable.
// Changes are appended; if the machine stops at any moment, the file holds the rules before or after a change.
//
// # Overrides
//
// A temporary override changes the registered client that has one of its attributes, or registers a temporary client.
// It expires by the node's own clock, even if the service is unreachable.
package follow
