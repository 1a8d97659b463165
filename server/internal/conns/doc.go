// Package conns limits connections, so that one client cannot use all of them. It limits the connections of a listener,
// the connections of a client address, and the file descriptors that all listeners of the process use together. When a
// limit is reached, it closes connections that serve no request, first those of the address with the most connections.
package conns
