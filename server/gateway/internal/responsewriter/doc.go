// Package responsewriter has code that the ResponseWriters for HTTP/1.1 and HTTP/2 share: header lines that a handler
// sets in wire format, the length and trailers that it announces, and the timeout of writes.
package responsewriter
