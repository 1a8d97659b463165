// Package conns bounds the connections of listeners, so that no client takes those of others: how many a listener has, how
// many one address has, and how many file descriptors all listeners of the process use together. When there is no room, it
// closes connections that serve no request, those of the address with the most first.
package conns
