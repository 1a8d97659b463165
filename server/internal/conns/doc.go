// Package conns bounds the connections of listeners, so that one client cannot use them all: the number of connections
// of a listener and of an address, and the file descriptors that all listeners of the process use together. If a limit
// is reached, it closes connections that serve no request, first those of the address with the most.
package conns
