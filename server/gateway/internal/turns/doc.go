// Package turns bounds how many HTTP/1.1 connections are served at the same time while this process has too few cores
// for its load.
//
// The state of a thousand active connections does not fit into a core's caches: a request then takes 1.8 times as much
// user time as with a hundred connections. So while the cores are busy, connections take turns. During its turn,
// several requests of a connection are served, as long as it sends each request promptly after the last response. The
// other connections wait in a queue, for about maxWait at most.
//
// [Queue.Adjust] begins and ends the limit. Connections whose last request took long, because of a slow upstream for
// example, are served without a turn. So is the first request of a connection.
package turns
