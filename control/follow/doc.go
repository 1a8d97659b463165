// Package follow keeps a node's rules what the rules service says they are.
//
//	f, err := follow.Open(ctx, follow.Config{Source: follow.Remote(client), Dir: dir, Apply: engine.SetRules})
//	if err != nil { ... }
//	defer f.Close()
//	err = f.Run(ctx) // until ctx ends
//
// A [Source] is a rules service elsewhere, or the database itself when it is in the same process. It says when something has
// changed; the [Follower] then asks what, makes it ready, and puts it in force as a whole or not at all. It asks every ten
// seconds as well, in case it was not told, and at once when [Follower.Poke] is called.
//
// What has changed is usually little: a change of one client moves that client, and no rule is compiled for it. If the
// service no longer knows what has changed, or the node has nothing yet, everything is sent, one object at a time.
//
// # When something is wrong
//
// The rules in force stay, and [Follower.Status] says what is wrong, as do the heartbeats. That holds for a service that is
// away, for what was cut off or changed on the way (it carries a checksum), and for rules that this version does not
// understand or cannot keep. A service that had rules and has never had any now has lost them: who deletes all rules makes a
// revision.
//
// With a directory, the node keeps what it was last sent in a file, and starts from it when the service is away. Changes are
// added to the end of it; whatever moment the machine stops at, the file holds what was in force before or after a change.
//
// # Overrides
//
// A temporary override is laid over the registered client that has one of its attributes, or over a client that is registered
// for the while. It ends by the node's own clock, whether the service can be reached or not.
package follow
