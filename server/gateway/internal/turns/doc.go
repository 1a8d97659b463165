// Package turns bounds how many connections are served at once while this process has too few cores for its load.
//
// The state of a thousand active connections does not fit into a core's caches: a request then takes 1.4 times as much
// CPU time as with a hundred connections. So while the cores are busy, connections take turns. In its turn a
// connection is served several times, as long as it sends its next request at once. The other connections wait in a
// queue, but no longer than maxWait.
//
// Nothing waits while the cores are not busy: see [Queue.Adjust]. Connections whose requests take long, as with a slow
// upstream, take no turns, and neither does the first request of a connection.
package turns
