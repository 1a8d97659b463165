// Package turns bounds how many connections are served at once while this process has too few cores for its load.
//
// The state of a thousand active connections does not fit into a core's caches: a request then takes 1.4 times as much
// CPU time as with a hundred connections. So while the cores are busy, connections take turns. In its turn a
// connection is served several times, as long as it sends its next request at once. The other connections wait in a
// queue. No request waits longer than maxWait because of it.
//
// While the cores are not busy, nothing waits: see [Queue.Adjust].
package turns
