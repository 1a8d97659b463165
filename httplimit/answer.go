package httplimit

import (
	"net/http"
	"strconv"
	"time"
)

// reject answers a request that is denied. Nothing here is done twice or for nothing, since it is what a flood meets.
func (h *handler) reject(w http.ResponseWriter, r *http.Request, x *exchange) {
	v := &x.verdict
	retryAfter := wholeSeconds(h.Fields.RetryAfter(v))
	if lines, room := lineWriterOf(w); lines != nil {
		h.rejectLines(w, lines, room, x, retryAfter)
		return
	}
	if conn := readyConnOf(w, r); conn != nil {
		h.rejectReady(w, conn, x, retryAfter)
		return
	}
	values := new(fieldValues) // the header refers to them, so they are not used again
	x.buf = h.Fields.fill(values, v, &h.policies, retryAfter, h.Now(), x.buf[:0])
	p := problemOf(v)
	x.buf = p.append(x.buf[:0], v, retryAfter)
	answer(w, values, v.Status, x.buf)
}

// rejectReady does the same on a connection that takes it as it will be on the wire.
func (h *handler) rejectReady(w http.ResponseWriter, conn *readyConn, x *exchange, retryAfter int64) {
	v := &x.verdict
	t := fieldText{buf: append(conn.lines[:0], linesOfProblem...), known: &h.policies, lines: true}
	h.Fields.tell(&t, v, retryAfter, h.Now())
	p := problemOf(v)
	conn.lines, conn.body = t.buf, p.append(conn.body[:0], v, retryAfter)
	w.WriteHeader(v.Status)
}

// rejectLines does the same on a server that takes lines as they will be on the wire.
func (h *handler) rejectLines(w http.ResponseWriter, lines lineWriter, room []byte, x *exchange, retryAfter int64) {
	v := &x.verdict
	t := fieldText{buf: append(room, linesOfProblem...), known: &h.policies, lines: true}
	h.Fields.tell(&t, v, retryAfter, h.Now())
	lines.SetHeaderLines(t.buf, ofRejections)
	p := problemOf(v)
	x.buf = p.append(x.buf[:0], v, retryAfter)
	w.WriteHeader(v.Status)
	_, _ = w.Write(x.buf) // a client that is gone has no use for it
}

// ofRejections are the fields that only we may say in the answer to a request that is denied.
var ofRejections = append(fieldNames[:], notOurs[:]...)

const linesOfProblem = "Cache-Control: " + noStore + "\r\nContent-Type: " + problemJSON + "\r\n"

// badRequest answers what cannot be read in one way only.
func badRequest(w http.ResponseWriter, x *exchange, err error) {
	p := problem{status: http.StatusBadRequest, kind: problemPlain, title: "Bad Request", detail: err.Error()}
	x.buf = p.append(x.buf[:0], nil, 0)
	answer(w, new(fieldValues), p.status, x.buf)
}

// gaveUp answers a request that was cancelled before its turn, which would have come after a wait. Mostly its client has hung
// up and nobody reads this.
func gaveUp(w http.ResponseWriter, x *exchange, wait time.Duration) {
	p := problem{
		status: http.StatusServiceUnavailable, kind: problemPlain, title: "Service Unavailable",
		detail: "Given up while waiting for its turn.",
	}
	if lines, room := lineWriterOf(w); lines != nil {
		lines.SetHeaderLines(room[:0], nil) // not what was to be told if it had been served
	}
	values := new(fieldValues)
	seconds := wholeSeconds(wait)
	if seconds > 0 {
		values[fieldRetryAfter] = strconv.FormatInt(seconds, 10)
	}
	x.buf = p.append(x.buf[:0], nil, seconds)
	answer(w, values, p.status, x.buf)
}

// notOurs are fields that others may have set already, for an answer that is not given.
var notOurs = [...]string{"Content-Encoding", "Content-Length", "Etag", "Last-Modified"}

// answer sends a problem. It must not be cached: the next request may pass.
func answer(w http.ResponseWriter, values *fieldValues, status int, body []byte) {
	header := w.Header()
	if len(header) > 0 {
		for _, name := range notOurs {
			delete(header, name)
		}
	}
	values[fieldType], values[fieldCache] = problemJSON, noStore
	values.put(header)
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone has no use for it
}

// drop closes the connection without an answer. Of HTTP/2, where others share it, it ends the stream alone.
func drop(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the way in which a handler tells the server so
	}
	_ = conn.Close() // nobody is there to be told
}
