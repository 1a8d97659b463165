// Package turns bounds how many HTTP/1.1 connections are served at once while this process has too few cores for its load.
//
// The state of a thousand active connections does not fit into a core's caches: a request then takes 1.8 times as much
// user time as with a hundred connections. So while the cores are busy, connections take turns. In its turn a
// connection is served several times, as long as it sends its next request at once. The other connections wait in a
// queue, for about maxWait at most.
//
// [Queue.Adjust] begins and ends the limit. Connections whose last request took long, as with a slow upstream, take no
// turn, and neither does the first request of a connection.
package turns
