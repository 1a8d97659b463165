package downstream

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A response is the answer to a request. It is used again for others on the same connection.
type response struct {
	conn   *conn
	header http.Header
	names  []headerName // of the header, in their order
	out    []byte       // what has not been sent yet

	head     bool // the method is HEAD
	wrote    bool // the header is complete, as far as the handler has a say
	framed   bool // it says how long the body is, and is complete in out, or sent
	sent     bool // some of the answer is
	chunked  bool
	bodyless bool // by the status
	closes   bool // the connection ends with this answer
	hijacked bool
	typed    bool // no Content-Type is to be found out
	dated    bool // there is a Date among the lines
	status   int
	body     int   // where in out the body begins, as long as it is not framed
	length   int64 // that the handler has said; −1 if it has not
	written  int64
	lines    []byte   // of the header, ready
	instead  []string // the names of headers that are not sent since there are lines
	trailers []string // that the handler has announced
	bounds   bounds   // of time
	bounded  bool     // the connection has a deadline for writing
	err      error    // of writing
}

// bounds are how long a write may take.
type bounds struct {
	by      time.Time     // until when; zero if timeout counts
	timeout time.Duration // for how long nothing of it may be taken; 0 for ever
}

// deadline is what holds from now on; zero if there is none.
func (b *bounds) deadline() time.Time {
	if b.by.IsZero() && b.timeout > 0 {
		return time.Now().Add(b.timeout)
	}
	return b.by
}

var (
	_ http.ResponseWriter = (*response)(nil)
	_ http.Flusher        = (*response)(nil)
	_ http.Hijacker       = (*response)(nil)
	_ io.StringWriter     = (*response)(nil)
)

// begin makes it that of a request.
func (w *response) begin(r *http.Request) {
	if len(w.header) > 0 {
		clear(w.header)
	}
	w.out = w.out[:0]
	w.head, w.closes = r.Method == http.MethodHead, r.Close
	w.wrote, w.framed, w.sent, w.chunked, w.bodyless, w.typed, w.dated = false, false, false, false, false, false, false
	w.status, w.body, w.length, w.written = 0, 0, -1, 0
	w.trailers, w.lines, w.instead = w.trailers[:0], w.lines[:0], nil
	w.bounds = bounds{timeout: w.conn.server.WriteTimeout}
}

// Header returns the header of the answer.
func (w *response) Header() http.Header { return w.header }

// HeaderLines returns room for lines of the header, for SetHeaderLines. It tells that this is possible.
func (w *response) HeaderLines() (room []byte, ok bool) { return w.lines[:0], true }

// SetHeaderLines says lines of the header as they are sent: each has a name and a value that are valid, and ends with CR and LF.
// They are not sent with interim answers. Headers of the names given are left out in return.
func (w *response) SetHeaderLines(lines []byte, instead []string) {
	w.lines, w.instead = lines, instead
}

// TakeHeaderLine adds a line to those, unless it is of a name that is left out. The name is in net/http's form, and both are
// valid. It tells whether that was done; if not, the line belongs in Header. It may refer to memory that is used again.
func (w *response) TakeHeaderLine(name, value string) bool {
	if w.wrote {
		return false
	}
	for _, other := range w.instead {
		if other == name {
			return true
		}
	}
	switch len(name) { // which rules most of them out
	case len("Date"):
		w.dated = w.dated || name == "Date"
	case len("Trailer"):
		if name == "Trailer" {
			return false
		}
	case len("Connection"):
		if name == "Connection" {
			return false
		}
	case len("Content-Type"):
		w.typed = w.typed || name == "Content-Type"
	case len("Content-Length"):
		if name == "Content-Length" {
			n, ok := parseLength(value)
			if !ok || w.length >= 0 {
				return false
			}
			w.length = n
		}
	case len("Content-Encoding"):
		w.typed = w.typed || name == "Content-Encoding" && value != ""
	case len("Transfer-Encoding"):
		if name == "Transfer-Encoding" {
			return false
		}
	}
	w.lines = append(w.lines, name...)
	w.lines = append(w.lines, ": "...)
	w.lines = append(w.lines, value...)
	w.lines = append(w.lines, "\r\n"...)
	return true
}

// WriteHeader begins the answer, or sends an interim one.
func (w *response) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic("downstream: status " + strconv.Itoa(status) + ": want one of three digits")
	}
	if w.wrote || w.hijacked {
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		w.out = appendStatus(w.out, status)
		w.appendFields(func(name string) bool { return name == "Content-Length" || name == "Transfer-Encoding" })
		w.out = append(w.out, "\r\n"...)
		w.flush()
		return
	}
	w.wrote, w.status = true, status
	w.bodyless = status < 200 || status == http.StatusNoContent || status == http.StatusNotModified
	if lines := w.header["Content-Length"]; len(lines) > 0 && !slices.Contains(w.instead, "Content-Length") {
		if n, ok := parseLength(lines[0]); ok && len(lines) == 1 && w.length < 0 {
			w.length = n
		} else {
			delete(w.header, "Content-Length")
		}
	}
	if left := w.conn.body.left.Load(); left > maxDrain {
		w.closes = true // or all of that would have to be read
	}
	w.begins()
}

// begins writes the header, and what frames the body if that is known.
func (w *response) begins() {
	for _, line := range w.header["Connection"] {
		if hasToken(line, "close") {
			w.closes = true
		}
	}
	closes := w.closes || w.conn.server.ending.Load()
	for _, line := range w.header["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = http.CanonicalHeaderKey(strings.Trim(name, " \t")); mayTrail(name) {
				w.trailers = append(w.trailers, name)
			}
		}
	}
	w.out = appendStatus(w.out, w.status)
	if len(w.lines) > 0 {
		w.out = append(w.out, w.lines...)
		w.typed = w.typed || slices.Contains(w.instead, "Content-Type")
	}
	if len(w.header) > 0 {
		w.appendHeader(closes)
	}
	if !w.dated {
		w.out = append(w.out, "Date: "...)
		w.out = append(w.out, w.conn.server.date()...)
		w.out = append(w.out, "\r\n"...)
	}
	if closes {
		w.closes = true
		w.out = append(w.out, "Connection: close\r\n"...)
	}
	switch {
	case w.bodyless, w.length >= 0 && w.typed, w.length == 0:
		w.out = append(w.out, "\r\n"...)
		w.framed = true
	default:
		w.body = len(w.out) // what comes shows how long it is, and of which type
	}
}

// appendHeader appends the header as far as it is for the client.
func (w *response) appendHeader(closes bool) {
	if _, ok := w.header["Date"]; ok {
		w.dated = true
	}
	if _, ok := w.header["Content-Type"]; ok {
		w.typed = true
	}
	w.appendFields(func(name string) bool {
		if w.instead != nil && slices.Contains(w.instead, name) {
			return true
		}
		switch name {
		case "Connection":
			return closes // which is said below
		case "Transfer-Encoding":
			return true
		case "Content-Length":
			return w.bodyless
		case "Content-Type":
			return w.status == http.StatusNotModified
		case "Content-Encoding":
			w.typed = w.typed || w.header["Content-Encoding"][0] != ""
		}
		return false
	})
}

// frame ends the header when it is known how the body is framed. whole tells that all of it is in out.
func (w *response) frame(whole bool) {
	w.framed = true
	var room [128]byte
	end := room[:0]
	if !w.typed && len(w.out) > w.body {
		end = append(end, "Content-Type: "...)
		end = append(end, http.DetectContentType(w.out[w.body:])...)
		end = append(end, "\r\n"...)
	}
	switch {
	case w.length >= 0:
	case w.head && (!whole || w.written == 0 || len(w.trailers) > 0 || w.hasLateTrailers()):
	case whole && len(w.trailers) == 0 && !w.hasLateTrailers():
		end = append(end, "Content-Length: "...)
		end = strconv.AppendInt(end, w.written, 10)
		end = append(end, "\r\n"...)
	default:
		w.chunked = true
		end = append(end, "Transfer-Encoding: chunked\r\n"...)
	}
	end = append(end, "\r\n"...)
	body := len(w.out) - w.body
	if w.head {
		body = 0
	}
	if w.chunked && body > 0 {
		end = strconv.AppendInt(end, int64(body), 16)
		end = append(end, "\r\n"...)
	}
	w.out = append(w.out[:w.body+body], end...)
	copy(w.out[w.body+len(end):], w.out[w.body:w.body+body])
	copy(w.out[w.body:], end)
	if w.chunked && body > 0 {
		w.out = append(w.out, "\r\n"...)
	}
}

// hasLateTrailers tells whether there are trailers that were not announced.
func (w *response) hasLateTrailers() bool {
	for name := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

const (
	// What a body may have before it is sent in chunks if nobody knows its length. It is net/http's.
	wholeBody = 2 << 10
	// What is collected before it is sent.
	outBuffer = 8 << 10
)

// Write writes some of the body.
func (w *response) Write(p []byte) (int, error) { return write(w, p) }

// WriteString is Write.
func (w *response) WriteString(s string) (int, error) { return write(w, s) }

func write[T string | []byte](w *response, p T) (int, error) {
	if w.hijacked {
		return 0, http.ErrHijacked
	}
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	n := len(p)
	if n == 0 {
		return 0, nil
	}
	if w.bodyless {
		return 0, http.ErrBodyNotAllowed
	}
	w.written += int64(len(p))
	if w.length >= 0 && w.written > w.length {
		return 0, http.ErrContentLength
	}
	if w.err != nil {
		return 0, w.err
	}
	if !w.framed {
		if len(w.out)-w.body+len(p) <= wholeBody {
			w.out = append(w.out, p...)
			return len(p), nil
		}
		if !w.typed && len(w.out) == w.body {
			// The type is told by how the body begins.
			w.typed = true
			w.out = append(w.out, "Content-Type: "...)
			w.out = append(w.out, http.DetectContentType([]byte(p[:min(len(p), 512)]))...)
			w.out = append(w.out, "\r\n"...)
			w.body = len(w.out)
		}
		w.frame(false)
	}
	if w.head {
		return len(p), nil
	}
	if w.chunked {
		w.out = strconv.AppendInt(w.out, int64(len(p)), 16)
		w.out = append(w.out, "\r\n"...)
	}
	if len(w.out)+len(p) > outBuffer {
		w.flush()
		if len(p) > outBuffer/2 {
			w.send([]byte(p))
			p = p[len(p):]
		}
	}
	w.out = append(w.out, p...)
	if w.chunked {
		w.out = append(w.out, "\r\n"...)
	}
	if w.err != nil {
		return 0, w.err
	}
	return n, nil
}

// Flush sends what is there.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is for http.ResponseController.
func (w *response) FlushError() error {
	if w.hijacked {
		return http.ErrHijacked
	}
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if !w.framed {
		w.frame(false)
	}
	w.flush()
	return w.err
}

// finish completes the answer and sends it.
func (w *response) finish() {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if !w.framed {
		w.frame(true)
	}
	if w.chunked {
		w.out = append(w.out, "0\r\n"...)
		w.appendTrailers()
		w.out = append(w.out, "\r\n"...)
	}
	w.flush()
	// What was made for an answer that is large is not kept.
	if cap(w.out) > 2*outBuffer {
		w.out = nil
	}
	if cap(w.lines) > outBuffer {
		w.lines = nil
	}
	if len(w.header) > manyFields {
		w.header, w.names = make(http.Header, fewFields), nil
	}
}

// missing tells whether the handler has written less than it said.
func (w *response) missing() bool {
	return w.length >= 0 && !w.head && !w.bodyless && w.written != w.length
}

func (w *response) flush() {
	if len(w.out) > 0 {
		w.send(w.out)
		w.out = w.out[:0]
	}
}

// send writes to the connection.
func (w *response) send(b []byte) {
	if w.err != nil {
		return
	}
	w.sent = true
	c := w.conn
	if c.socket != nil {
		w.err = c.socket.write(b, &w.bounds)
		return
	}
	if by := w.bounds.deadline(); w.bounded || !by.IsZero() {
		w.bounded = !by.IsZero()
		_ = c.rwc.SetWriteDeadline(by) // if the connection is gone, writing says so
	}
	_, w.err = c.rwc.Write(b)
}

// SetWriteDeadline bounds how long writing may take, in place of Server.WriteTimeout.
func (w *response) SetWriteDeadline(t time.Time) error {
	w.bounds = bounds{by: t}
	return nil
}

// BoundsWrites tells that Server.WriteTimeout is heeded, so that nobody else has to.
func (w *response) BoundsWrites() bool { return w.conn.server.WriteTimeout > 0 }

// SetReadDeadline bounds how long reading the body may take.
func (w *response) SetReadDeadline(t time.Time) error {
	w.conn.theirs.Store(true)
	return w.conn.rwc.SetReadDeadline(t)
}

// EnableFullDuplex is how it is anyway: the body may be read while the answer is written.
func (w *response) EnableFullDuplex() error { return nil }

// Hijack gives the connection to the handler.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.hijacked {
		return nil, nil, http.ErrHijacked
	}
	c := w.conn
	c.unwatch()
	c.disarm()
	if c.theirs.Load() {
		_ = c.rwc.SetReadDeadline(time.Time{})
	}
	w.flush()
	if w.err != nil {
		return nil, nil, w.err
	}
	w.hijacked = true
	rest := append([]byte(nil), c.in.bytes()...)
	r := bufio.NewReaderSize(&replayed{Conn: c.rwc, rest: rest}, max(len(rest), headBuffer))
	if len(rest) > 0 {
		_, _ = r.Peek(1) // so that all of it is there
	}
	return c.rwc, bufio.NewReadWriter(r, bufio.NewWriter(c.rwc)), nil
}

// A headerName is the name of a header, with a number by which most are told apart.
type headerName struct {
	prefix uint64
	name   string
}

// appendFields appends the header's lines in the order of their names, but for those that are left out.
func (w *response) appendFields(without func(name string) bool) {
	w.names = w.names[:0]
	for name, lines := range w.header {
		if len(lines) == 0 || !isName(name) {
			continue // so are the names of late trailers no names, as they have a colon
		}
		w.names = append(w.names, headerName{name: name, prefix: prefixOf(name)})
	}
	slices.SortFunc(w.names, func(a, b headerName) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		return cmp.Compare(a.name, b.name)
	})
	for i := range w.names {
		name := w.names[i].name
		if without(name) {
			continue
		}
		for _, value := range w.header[name] {
			w.out = appendField(w.out, name, value)
		}
	}
}

// prefixOf returns the first bytes of a name as a number, in the order of names.
func prefixOf(name string) uint64 {
	var b [8]byte
	copy(b[:], name)
	return binary.BigEndian.Uint64(b[:])
}

// appendTrailers appends what follows the body.
func (w *response) appendTrailers() {
	var late []string
	for name := range w.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && mayTrail(name) {
			late = append(late, name)
		}
	}
	slices.Sort(late)
	for _, name := range late {
		for _, value := range w.header[http.TrailerPrefix+name] {
			w.out = appendField(w.out, name, value)
		}
	}
	for _, name := range w.trailers {
		for _, value := range w.header[name] {
			w.out = appendField(w.out, name, value)
		}
	}
}

// mayTrail tells whether a field may come after the body: not one that says how to read it.
func mayTrail(name string) bool {
	switch name {
	case "Transfer-Encoding", "Content-Length", "Trailer":
		return false
	default:
		return isName(name)
	}
}

// appendField appends a header line. What would end the line becomes a space.
func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	from := len(dst)
	dst = append(dst, strings.Trim(value, " \t\r\n")...)
	for i, c := range dst[from:] {
		if c < ' ' && c != '\t' || c == 0x7f {
			dst[from+i] = ' '
		}
	}
	return append(dst, "\r\n"...)
}

func isName(name string) bool {
	for i := range len(name) {
		if lower[name[i]] == 0 {
			return false
		}
	}
	return name != ""
}

// hasToken tells whether a list has an element.
func hasToken(list, token string) bool {
	for element := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(element, " \t"), token) {
			return true
		}
	}
	return false
}

// appendStatus appends the first line of an answer.
func appendStatus(dst []byte, status int) []byte {
	if status == http.StatusOK {
		return append(dst, "HTTP/1.1 200 OK\r\n"...)
	}
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	if text := http.StatusText(status); text != "" {
		dst = append(dst, text...)
	} else {
		dst = append(dst, "status code "...)
		dst = strconv.AppendInt(dst, int64(status), 10)
	}
	return append(dst, "\r\n"...)
}
