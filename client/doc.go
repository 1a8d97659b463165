// Package client calls the decision service of Headgate over gRPC, and limits what a program sends to services of others.
//
//	c, err := client.New(client.Options{Address: "127.0.0.1:8082", Token: token})
//	if err != nil { ... }
//	defer c.Close()
//
//	answer, err := c.RateLimit(ctx, client.Request{User: "alice", Attributes: map[string]string{"path": "/search"}})
//	if err != nil { ... }
//	if !answer.Passed { ... }
//
// # Calls that travel together
//
// A call that is alone is sent at once. Those that come while others are under way wait until they are enough to travel
// together, at most Options.BatchWait: many goroutines cost little more than one. No more than eight such groups are under
// way at once; if these take longer, the others wait for one of them. Groups are sent on streams that stay open while they
// are used, as each takes less work there than in a call of its own. An older service that has no such streams gets calls, and
// is tried again every ten seconds.
//
// # When the service does not answer
//
// Calls end after Options.Deadline. RateLimit then answers by Options.OnFailure: it lets pass, or denies, and says Degraded.
// After five failures in a row calls are answered that way at once, and twice a second one of them asks how it is. What is
// wrong with a call itself is an error, and only of that call: a rule that does not exist, a token that is not believed, texts that
// are not UTF-8 or too long. Clients of the caller's may bring that about, so that who lets pass on an error lets them pass.
//
// Decisions are not sent again when they fail, since they may have counted. What is safe to repeat (a cost of 0, Release,
// Reset) is sent once more if the connection broke. What a server has refused to look at, as it is going away, is sent to
// another.
//
// # A store on another host
//
// [Client.Limiter] is a headgate.Limiter whose counters are in the service, by limits of the program's own rather than by
// rules. The service has to offer it. It has a guard in it: see package guard for what it does when the service is away.
//
// # Limiting oneself
//
// A [Transport] is an http.RoundTripper that keeps to a limit before it calls out, and to what servers say of theirs: in
// RateLimit and RateLimit-Policy, in X-RateLimit-Limit and its like, and in Retry-After.
package client
