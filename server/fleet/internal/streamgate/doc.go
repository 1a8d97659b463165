// Package streamgate limits the size and the number of streams that memberlist reads.
//
// memberlist reads a whole stream into memory before it decrypts it, up to 20 MB, for any number of streams. So without
// a limit, anyone who reaches the port could use up a host's memory, with or without the key.
package streamgate
