package upstream

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unsafe"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// maxInterim is the maximum number of interim responses to one request.
const maxInterim = 32

// readHead reads and parses the head of a response. It leaves the head in the buffer, because rt.head.fields refer to
// its bytes.
func (rt *roundTrip) readHead() *Error {
	const op = "read the response"
	scanned := 0
	for {
		b := rt.buffer.bytes()
		end := http1.HeadEnd(b, &scanned)
		if size := cmp.Or(end, len(b)); size > rt.pool.config.MaxHeaderBytes-rt.interim.bytes {
			return rt.pool.newError(FaultResponse, op, errHeadSize)
		}
		if end > 0 {
			rt.headSize = end
			if err := rt.head.parse(b[:end]); err != nil {
				rt.head.status = 0
				return rt.pool.newError(FaultResponse, op, err)
			}
			return nil
		}
		if err := rt.fill(); err != nil {
			return rt.connError(op, err)
		}
	}
}

func (rt *roundTrip) fill() error {
	n, err := rt.read(rt.buffer.available())
	rt.buffer.w += n
	return err
}

// relayInterim passes on an interim response (1xx), and does nothing for a final response. It drops 100 Continue,
// because the http.Server sends its own when the body is read.
func (rt *roundTrip) relayInterim() *Error {
	if rt.head.status >= 200 {
		return nil
	}
	const op = "read the response"
	rt.interim.bytes += rt.headSize
	rt.interim.count++
	switch {
	case rt.head.status == http.StatusSwitchingProtocols:
		return rt.pool.newError(FaultUpgrade, op, errUpgrade)
	case rt.interim.count > maxInterim:
		return rt.pool.newError(FaultResponse, op, errTooManyInterim)
	case rt.head.status != http.StatusContinue && rt.r.ProtoAtLeast(1, 1):
		// The headers that are already set belong to the final response.
		h := rt.w.Header()
		finalHeader := maps.Clone(h)
		clear(h)
		rt.copyFields(h)
		rt.w.WriteHeader(rt.head.status)
		clear(h)
		maps.Copy(h, finalHeader)
	}
	rt.buffer.consume(rt.headSize)
	return nil
}

// copyFields adds the response's headers to h.
func (rt *roundTrip) copyFields(h http.Header) {
	// One string and one slice serve all fields, to save allocations.
	text := string(rt.buffer.bytes()[:rt.headSize])
	values := make([]string, len(rt.head.fields))
	for i, f := range rt.head.fields {
		name, value := f.Name.Text(text), f.Value.Text(text)
		if others := h[name]; len(others) > 0 {
			h[name] = append(others, value)
			continue
		}
		values[i] = value
		h[name] = values[i : i+1 : i+1] // with capacity 1, so that append does not overwrite the next value
	}
}

// A lineAdder is a ResponseWriter that accepts header lines instead of entries of Header, such as the ResponseWriter of
// package downstream. TryAddHeaderLine copies name and value, or returns false if it does not accept the line.
type lineAdder interface {
	TryAddHeaderLine(name, value string) bool
}

// writeFields passes the response's headers to the ResponseWriter, as lines if it accepts them.
func (rt *roundTrip) writeFields() {
	w, ok := rt.w.(lineAdder)
	// If the status forbids a body, the server must omit some headers. It looks for these only in Header, not in lines.
	if !ok || rt.head.hasNoBody(http.MethodGet) {
		rt.copyFields(rt.w.Header())
		return
	}
	block := rt.buffer.bytes()[:rt.headSize]
	refused := rt.head.fields[:0]
	for _, f := range rt.head.fields {
		if !w.TryAddHeaderLine(unsafeString(f.Name.Bytes(block)), unsafeString(f.Value.Bytes(block))) {
			refused = append(refused, f)
		}
	}
	if rt.head.fields = refused; len(refused) > 0 {
		rt.copyFields(rt.w.Header())
	}
}

// unsafeString returns b as a string without copying it. The string must not be used after b has changed; its only user
// is TryAddHeaderLine, which copies it.
func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// relay passes on the final response.
func (rt *roundTrip) relay() *Error {
	rt.writeFields()
	h := rt.w.Header()
	rt.buffer.consume(rt.headSize)
	if rt.sender != nil {
		rt.sender.responseBegan()
	}
	if !rt.bodyWasRead() {
		rt.closeClientConn()
	}
	bodyless := rt.head.hasNoBody(rt.r.Method)
	if !bodyless && !rt.head.hasContentType {
		// A nil entry keeps the http.Server from detecting a type.
		if _, ok := h["Content-Type"]; !ok {
			h["Content-Type"] = nil
		}
	}
	if len(rt.head.announcedTrailers) > 0 && !bodyless {
		h["Trailer"] = []string{strings.Join(rt.head.announcedTrailers, ", ")}
	}
	rt.outcome.Status, rt.outcome.Sent = rt.head.status, true
	rt.inBody = true
	rt.w.WriteHeader(rt.head.status)
	switch {
	case bodyless, rt.head.length == 0:
		return nil
	case rt.head.chunked:
		return rt.relayChunks()
	case rt.head.length > 0:
		return rt.relayLength(rt.head.length)
	default:
		rt.head.closesConn = true
		return rt.relayUntilClose()
	}
}

// relayLength passes on a body of known length. It flushes only an event stream.
func (rt *roundTrip) relayLength(remaining int64) *Error {
	for {
		b := rt.buffer.bytes()
		b = b[:min(int64(len(b)), remaining)]
		if err := rt.writeBody(b); err != nil {
			return err
		}
		remaining -= int64(len(b))
		if remaining == 0 {
			return nil
		}
		if rt.head.eventStream {
			if err := rt.flushClient(); err != nil {
				return err
			}
		}
		if remaining > headBufferSize {
			rt.buffer.grow()
		}
		if err := rt.fill(); err != nil {
			return rt.connError(opBody, err)
		}
	}
}

// relayUntilClose passes on a body that ends when the upstream closes the connection. It flushes before it waits for
// more.
func (rt *roundTrip) relayUntilClose() *Error {
	for {
		if err := rt.writeBody(rt.buffer.bytes()); err != nil {
			return err
		}
		if err := rt.flushClient(); err != nil {
			return err
		}
		rt.buffer.grow()
		if err := rt.fill(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return rt.connError(opBody, err)
		}
	}
}

// relayChunks passes on a chunked body. It flushes before it waits for more.
func (rt *roundTrip) relayChunks() *Error {
	var c http1.Chunks
	for {
		data, used, err := c.Next(rt.buffer.bytes())
		rt.buffer.consume(used)
		if len(data) > 0 {
			if _, err := rt.w.Write(data); err != nil {
				return rt.clientError(err)
			}
			rt.outcome.Bytes += int64(len(data))
			continue
		}
		if errors.Is(err, io.EOF) {
			return rt.relayTrailers()
		}
		if err != nil {
			return rt.pool.newError(FaultResponse, opBody, err)
		}
		if err := rt.flushClient(); err != nil {
			return err
		}
		if c.Left() > headBufferSize {
			rt.buffer.grow()
		}
		if err := rt.fill(); err != nil {
			return rt.connError(opBody, err)
		}
	}
}

// relayTrailers passes on the trailers after the last chunk.
func (rt *roundTrip) relayTrailers() *Error {
	const op = "read the response's trailers"
	scanned := 0
	for {
		b := rt.buffer.bytes()
		if len(b) >= 2 && b[0] == '\r' && b[1] == '\n' {
			rt.buffer.consume(2)
			return nil
		}
		end := http1.HeadEnd(b, &scanned)
		if cmp.Or(end, len(b)) > rt.pool.config.MaxHeaderBytes {
			return rt.pool.newError(FaultResponse, op, errHeadSize)
		}
		if end > 0 {
			fields, err := parseFields(b[:end], 0, rt.head.fields[:0], crlfOnly)
			rt.head.fields = fields
			if err != nil {
				return rt.pool.newError(FaultResponse, op, err)
			}
			if err := rt.copyTrailers(string(b[:end])); err != nil {
				return err
			}
			rt.buffer.consume(end)
			return nil
		}
		if err := rt.fill(); err != nil {
			return rt.connError(op, err)
		}
	}
}

// copyTrailers sets the trailers as net/http requires it: announced trailers by their name, others with
// http.TrailerPrefix.
func (rt *roundTrip) copyTrailers(text string) *Error {
	h := rt.w.Header()
	for _, name := range rt.head.announcedTrailers {
		delete(h, name) // the entry is from the header, which was already sent; net/http would send it as a trailer
	}
	flushed := false
	for _, f := range rt.head.fields {
		name, value := f.Name.Text(text), f.Value.Text(text)
		isName := func(n string) bool { return strings.EqualFold(n, name) }
		if !http1.MayTrail(name) || slices.ContainsFunc(rt.head.connectionNames, isName) {
			continue
		}
		if !slices.Contains(rt.head.announcedTrailers, name) {
			// Without a flush, net/http would send a short response with a Content-Length, which cannot have trailers.
			if !flushed {
				flushed = true
				if err := rt.flushClient(); err != nil {
					return err
				}
			}
			name = http.TrailerPrefix + name
		}
		h[name] = append(h[name], value)
	}
	return nil
}

const opBody = "read the response's body"

// writeBody passes on b, which are the first bytes of the buffer, and consumes them.
func (rt *roundTrip) writeBody(b []byte) *Error {
	if len(b) == 0 {
		return nil
	}
	if _, err := rt.w.Write(b); err != nil {
		return rt.clientError(err)
	}
	rt.outcome.Bytes += int64(len(b))
	rt.buffer.consume(len(b))
	return nil
}

// flushClient flushes the response to the client.
func (rt *roundTrip) flushClient() *Error {
	if rt.flush == nil {
		rt.flush = http.NewResponseController(rt.w).Flush
	}
	if err := rt.flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return rt.clientError(err)
	}
	return nil
}

// clientError returns the Error for a failed write to the client.
func (rt *roundTrip) clientError(err error) *Error {
	return rt.pool.newError(FaultClient, "send the response", err)
}
