// Package follow keeps a node's rules up to date with the rules service.
//
//	f, err := follow.Open(ctx, follow.Config{Source: follow.Remote(client), Dir: dir, Apply: engine.SetRules})
//	if err != nil { ... }
//	defer f.Close()
//	err = f.Run(ctx) // until ctx ends
//
// A [Source] is a remote rules service or a database in the same process. It signals each change of the rules. The
// [Follower] then fetches the change and puts it in force, completely or not at all. The Follower also polls the Source
// every ten seconds, because a signal may be lost. [Follower.Refresh] polls immediately.
//
// The Source sends only the objects that have changed. A change of a client replaces that client and compiles no rules.
// If the node has no rules yet, or the Source no longer knows the changes since the node's revision, it sends all
// objects.
//
// # Failures
//
// The rules in force do not change, and [Follower.Status] and the heartbeats report the problem, in these cases:
//
//   - The rules service is unreachable.
//   - A response is incomplete or its checksum is wrong.
//   - This version of Headgate does not understand the rules.
//   - A service that had rules is at revision 0. It has lost its data: even deleting all rules creates a revision.
//
// If Config.Dir is set, the node stores the last rules in a file there, and starts with them when the service is
// unreachable. Changes are appended to the file. If the machine stops during a write, the file is valid up to the
// change before it.
//
// # Overrides
//
// An override gives one client other limits for some time. It changes the registered client that has one of its
// attributes. If there is none, the Follower registers a temporary client. Overrides expire by the node's own clock,
// even if the service is unreachable.
package follow
