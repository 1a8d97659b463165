// Package streamgate limits the size and the number of TCP streams that memberlist reads. memberlist is the library
// that package gossip uses to find peers.
//
// memberlist reads a whole stream of up to 20 MB into memory before it decrypts the stream. It accepts any number of
// streams. Without this limit, anyone who can connect to the port could exhaust the memory of a host, even without the
// encryption key.
package streamgate
