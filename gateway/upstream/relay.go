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

	"github.com/headgate/headgate/gateway/internal/http1"
)

// maxInterim is how many interim responses there may be to one request.
const maxInterim = 32

// readHead reads the head of a response. Its bytes stay in the inbox until they are used, as its fields are there.
func (x *exchange) readHead() *Error {
	const op = "read the response"
	scanned := 0
	for {
		b := x.in.bytes()
		end := http1.HeadEnd(b, &scanned)
		if size := cmp.Or(end, len(b)); size > x.pool.config.MaxHeaderBytes-x.interims {
			return x.pool.fault(FaultResponse, op, errHeadSize)
		}
		if end > 0 {
			x.block = end
			if err := x.head.parse(b[:end]); err != nil {
				x.head.status = 0
				return x.pool.fault(FaultResponse, op, err)
			}
			return nil
		}
		if err := x.fill(); err != nil {
			return x.failed(op, err)
		}
	}
}

func (x *exchange) fill() error {
	n, err := x.read(x.in.room())
	x.in.w += n
	return err
}

// interim passes on an interim response, and leaves any other. 100 Continue is for us: net/http says that to the client when
// his body is read.
func (x *exchange) interim() *Error {
	if x.head.status >= 200 {
		return nil
	}
	const op = "read the response"
	x.interims += x.block
	x.interimCount++
	switch {
	case x.head.status == http.StatusSwitchingProtocols:
		return x.pool.fault(FaultUpgrade, op, errUpgrade)
	case x.interimCount > maxInterim:
		return x.pool.fault(FaultResponse, op, errManyInterim)
	case x.head.status != http.StatusContinue && x.r.ProtoAtLeast(1, 1):
		// What others have put there is for the final response.
		h := x.w.Header()
		later := maps.Clone(h)
		clear(h)
		x.copyFields(h)
		x.w.WriteHeader(x.head.status)
		clear(h)
		maps.Copy(h, later)
	}
	x.in.use(x.block)
	return nil
}

// copyFields adds the response's headers to h.
func (x *exchange) copyFields(h http.Header) {
	// One string has them all, and one slice.
	text := string(x.in.bytes()[:x.block])
	values := make([]string, len(x.head.fields))
	for i, f := range x.head.fields {
		name, value := f.Name.Text(text), f.Value.Text(text)
		if before := h[name]; len(before) > 0 {
			h[name] = append(before, value)
			continue
		}
		values[i] = value
		h[name] = values[i : i+1 : i+1]
	}
}

// A lineTaker is a ResponseWriter that takes lines of the header as they are sent, in place of Header. It copies what it takes,
// and leaves what it does not.
type lineTaker interface {
	TakeHeaderLine(name, value string) bool
}

// giveFields gives the response's headers to w: directly, if it takes them so.
func (x *exchange) giveFields() {
	w, ok := x.w.(lineTaker)
	if !ok || x.head.bodyless(http.MethodGet) { // of these, not all headers are sent
		x.copyFields(x.w.Header())
		return
	}
	block := x.in.bytes()[:x.block]
	left := x.head.fields[:0]
	for _, f := range x.head.fields {
		if !w.TakeHeaderLine(text(f.Name.Bytes(block)), text(f.Value.Bytes(block))) {
			left = append(left, f)
		}
	}
	if x.head.fields = left; len(left) > 0 {
		x.copyFields(x.w.Header())
	}
}

// text returns bytes as a string, for who does not keep it.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// relay passes on the response whose head was read.
func (x *exchange) relay() *Error {
	x.giveFields()
	h := x.w.Header()
	x.in.use(x.block)
	if x.sender != nil {
		x.sender.takeOver()
	}
	if !x.drained() {
		x.closeAfter()
	}
	bodyless := x.head.bodyless(x.r.Method)
	if !bodyless && !x.head.typed {
		// net/http would guess one.
		if _, ok := h["Content-Type"]; !ok {
			h["Content-Type"] = nil
		}
	}
	if len(x.head.trailer) > 0 && !bodyless {
		h["Trailer"] = []string{strings.Join(x.head.trailer, ", ")}
	}
	x.outcome.Status, x.outcome.Sent, x.inBody = x.head.status, true, true
	x.w.WriteHeader(x.head.status)
	switch {
	case bodyless, x.head.length == 0:
		return nil
	case x.head.chunked:
		return x.relayChunks()
	case x.head.length > 0:
		return x.relayLength(x.head.length)
	default:
		x.head.ends = true
		return x.relayRest()
	}
}

// relayLength passes on a body of known length. The client's side buffers it unless it is a stream.
func (x *exchange) relayLength(left int64) *Error {
	for {
		b := x.in.bytes()
		b = b[:min(int64(len(b)), left)]
		if err := x.give(b); err != nil {
			return err
		}
		left -= int64(len(b))
		if left == 0 {
			return nil
		}
		if x.head.stream {
			if err := x.flushOut(); err != nil {
				return err
			}
		}
		if left > headBuffer {
			x.in.widen()
		}
		if err := x.fill(); err != nil {
			return x.failed(opBody, err)
		}
	}
}

// relayRest passes on a body that ends with the connection. What has come is given to the client before we wait for more.
func (x *exchange) relayRest() *Error {
	for {
		if err := x.give(x.in.bytes()); err != nil {
			return err
		}
		if err := x.flushOut(); err != nil {
			return err
		}
		x.in.widen()
		if err := x.fill(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return x.failed(opBody, err)
		}
	}
}

// relayChunks passes on a body in chunks. What has come is given to the client before we wait for more.
func (x *exchange) relayChunks() *Error {
	var c http1.Chunks
	for {
		data, used, err := c.Next(x.in.bytes())
		x.in.use(used)
		if len(data) > 0 {
			if _, err := x.w.Write(data); err != nil {
				return x.lost(err)
			}
			x.outcome.Bytes += int64(len(data))
			continue
		}
		if errors.Is(err, io.EOF) {
			return x.relayTrailers()
		}
		if err != nil {
			return x.pool.fault(FaultResponse, opBody, err)
		}
		if err := x.flushOut(); err != nil {
			return err
		}
		if c.Left() > headBuffer {
			x.in.widen()
		}
		if err := x.fill(); err != nil {
			return x.failed(opBody, err)
		}
	}
}

// relayTrailers passes on what follows the last chunk.
func (x *exchange) relayTrailers() *Error {
	const op = "read the response's trailers"
	scanned := 0
	for {
		b := x.in.bytes()
		if len(b) >= 2 && b[0] == '\r' && b[1] == '\n' {
			x.in.use(2)
			return nil
		}
		end := http1.HeadEnd(b, &scanned)
		if cmp.Or(end, len(b)) > x.pool.config.MaxHeaderBytes {
			return x.pool.fault(FaultResponse, op, errHeadSize)
		}
		if end > 0 {
			fields, err := parseFields(b[:end], 0, x.head.fields[:0], true)
			x.head.fields = fields
			if err != nil {
				return x.pool.fault(FaultResponse, op, err)
			}
			if err := x.copyTrailers(string(b[:end])); err != nil {
				return err
			}
			x.in.use(end)
			return nil
		}
		if err := x.fill(); err != nil {
			return x.failed(op, err)
		}
	}
}

// copyTrailers gives trailers to w, in the ways that net/http has for those that were announced and those that were not.
func (x *exchange) copyTrailers(text string) *Error {
	h := x.w.Header()
	for _, name := range x.head.trailer {
		delete(h, name) // a header of that name has been sent
	}
	flushed := false
	for _, f := range x.head.fields {
		name, value := f.Name.Text(text), f.Value.Text(text)
		if !http1.MayTrail(name) || slices.ContainsFunc(x.head.named, func(n string) bool { return strings.EqualFold(n, name) }) {
			continue
		}
		if !slices.Contains(x.head.trailer, name) {
			// A short response would get a length otherwise, and could have no trailers.
			if !flushed {
				flushed = true
				if err := x.flushOut(); err != nil {
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

// give passes on bytes of the body that are in the inbox.
func (x *exchange) give(b []byte) *Error {
	if len(b) == 0 {
		return nil
	}
	if _, err := x.w.Write(b); err != nil {
		return x.lost(err)
	}
	x.outcome.Bytes += int64(len(b))
	x.in.use(len(b))
	return nil
}

// flushOut has the client get all that was written.
func (x *exchange) flushOut() *Error {
	if x.flush == nil {
		x.flush = http.NewResponseController(x.w).Flush
	}
	if err := x.flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return x.lost(err)
	}
	return nil
}

// lost is the error when the client cannot be written to.
func (x *exchange) lost(err error) *Error { return x.pool.fault(FaultClient, "send the response", err) }
