// Package h2 serves HTTP/2 connections of clients (RFC 9113) for package downstream. It needs much less time and
// memory than net/http.
//
//	s := &h2.Server{Handler: proxy, MaxStreams: 250, MaxHeaderBytes: 64 << 10, Date: date, Logf: log.Printf}
//	c := s.NewConn(h2.Link{Conn: accepted, Remote: accepted.RemoteAddr().String(), States: states})
//	c.Serve()
//
// One goroutine reads the frames of a connection. The handler of each request runs in a goroutine, which runs other
// handlers later. No goroutine is there only for writing: a goroutine that has frames to send adds them to the queue
// of the connection. Unless another goroutine is about to send the queue, it lets other goroutines run and then sends
// all queued frames in one write.
//
// Frames are parsed in the read buffer, and header blocks are encoded without a dynamic table, as nginx does. So
// reading the frames of a request allocates nothing, and responses are encoded concurrently.
//
// # Requests
//
// A handler gets an *http.Request like one of net/http. It must not use the request, its header or the writer after
// it has returned. The context ends when the client resets the stream or disconnects. Malformed requests reset the
// stream, as RFC 9113 requires. This package is stricter than net/http about
//
//	spaces around a field value
//	a path that does not begin with a slash, except * of OPTIONS
//	a Host that differs from :authority, or several
//	several Content-Length fields, or one that is no number
//	connection-specific fields: net/http responds to them with 400
//
// # Limits
//
// MaxStreams bounds the handlers of a connection, including those of streams that the client has reset. MaxHeaderBytes
// bounds the decoded size of a header. Requests with a larger header get 431, and much larger headers end the
// connection. Up to 1 MiB of bodies is buffered for a connection, and 64 KiB of frames to send. A write waits at most
// WriteTimeout for the client's window and socket. Frames that cost work but are of no use to the client, such as
// resets of streams, pings, settings, priorities and empty frames, have a budget: 1,000 frames, 100 more for each
// second, and 4 more for each useful frame. A client that exceeds it is disconnected with ENHANCE_YOUR_CALM.
//
// # End of a connection
//
// Drain announces that the connection ends: it sends a GOAWAY that still allows all streams, and a PING. When the
// client has responded to the PING, all requests that it sent before it read the GOAWAY have arrived. A second GOAWAY
// then states the last stream that is served. The connection ends when its streams have ended.
package h2
