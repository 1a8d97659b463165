// Package turns limits the number of HTTP/1.1 connections that are served at the same time while the cores are busy.
//
// The state of a thousand active connections does not fit into a core's caches: a request then takes 1.8 times as much
// user time as with a hundred connections. So while the cores are busy, connections take turns. A turn lasts for
// several requests of a connection, as long as the client sends each request promptly after the last response. The
// other connections wait in a queue, for about maxWait at most.
//
// [Queue.Adjust] turns the limit on and off. The first request of a connection needs no turn, and neither does a
// connection whose last request took long, for example because of a slow upstream.
package turns
