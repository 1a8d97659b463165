// Package h2 serves HTTP/2 connections of clients (RFC 9113) for package downstream, for much less than net/http needs.
//
//	s := &h2.Server{Handler: proxy, MaxStreams: 250, MaxHeaderBytes: 64 << 10, Date: date, Logf: log.Printf}
//	c := s.NewConn(h2.Link{Conn: accepted, Remote: accepted.RemoteAddr().String(), States: states})
//	c.Serve()
//
// One goroutine reads the frames of a connection. Each request has a goroutine for its handler, which later runs other
// handlers. There is none for writing: a goroutine that has frames to send adds them to those of the connection, lets
// other goroutines run, and then sends the frames of all in one write, unless another goroutine is about to do so.
//
// Frames are parsed in the read buffer, and header blocks are encoded without a dynamic table, as nginx does. So a
// request needs no allocation for its frames, and responses are encoded concurrently.
//
// # Requests
//
// A handler gets an *http.Request as from net/http, and must not use it, its header or the writer after it has
// returned. The context ends when the client resets the stream or disconnects. Malformed requests reset the stream, as
// RFC 9113 says; this package is stricter than net/http about
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
// bounds a header as it is decoded; larger ones get 431, and much larger ones end the connection. Up to 1 MiB of bodies
// is buffered for a connection, and 64 KiB of frames to send. A write waits at most WriteTimeout for the client's
// window and socket. Frames that cost work without a use, such as resets of streams, pings, settings, priorities and
// empty frames, have a budget: 1,000 of them, and 100 more for each second, and four for each useful frame. A client
// that exceeds it is disconnected with ENHANCE_YOUR_CALM.
//
// # End of a connection
//
// Drain announces that the connection ends, by a GOAWAY that still allows all streams and a PING. When the client has
// responded to it, no request can be on its way that the client sent before it knew; a second GOAWAY states the last
// stream that is served. The connection ends when its streams have ended.
package h2
