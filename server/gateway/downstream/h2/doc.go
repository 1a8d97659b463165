// Package h2 serves HTTP/2 connections of clients (RFC 9113) for package downstream. It needs much less time and
// memory than net/http.
//
//	s := &h2.Server{Handler: proxy, MaxStreams: 250, MaxHeaderBytes: 64 << 10, Date: date, Logf: log.Printf}
//	c := s.NewConn(h2.Link{Conn: accepted, Remote: accepted.RemoteAddr().String(), States: states})
//	c.Serve()
//
// One goroutine reads the frames of a connection. Each handler runs in a goroutine, which is reused for later requests.
// There is no goroutine for writing. A goroutine that has frames to send adds them to the queue of the connection. If
// no other goroutine is about to send the queue, it lets other goroutines run first, so that they can add frames, and
// then sends all queued frames in one write.
//
// Frames are parsed in the read buffer, so reading a request's frames allocates nothing. Header blocks are encoded
// without a dynamic table, as nginx does, so responses can be encoded concurrently.
//
// # Requests
//
// A handler gets the same *http.Request as from net/http. It must not use the request, its header or the writer after
// it has returned. The context ends when the client resets the stream or disconnects. The server resets the stream of a
// malformed request, as RFC 9113 requires. Unlike net/http, it also does so for
//
//	spaces around a field value
//	a path that does not begin with a slash, except * of OPTIONS
//	a Host that differs from :authority, or several Host fields
//	several Content-Length fields, or a Content-Length that is not a number
//	connection-specific fields, to which net/http responds with 400
//
// # Limits
//
// MaxStreams is the maximum number of handlers of a connection, including those of streams that the client has reset.
// MaxHeaderBytes is the maximum decoded size of a header. Requests with a larger header get 431, and much larger
// headers end the connection. Up to 1 MiB of bodies is buffered for a connection, and 64 KiB of frames to send. A write
// waits at most WriteTimeout for flow control and the socket. Frames that an attacker can send cheaply, such as resets
// of streams, pings, settings, priorities and empty frames, have a budget: 1,000 frames, 100 more for each second, and
// 4 more for each other frame. A client that exceeds the budget is disconnected with ENHANCE_YOUR_CALM.
//
// # End of a connection
//
// Drain announces the end of a connection: it sends a GOAWAY that still allows all streams, and a PING. When the client
// responds to the PING, all requests that it sent before it read the GOAWAY have arrived. A second GOAWAY then names
// the last stream that is served. The connection is closed when its streams have ended.
package h2
