package httplimit

import (
	"net/http"
	"strconv"
	"time"
)

// reject responds to a denied request. It is optimized, because a flood of requests ends here.
func (h *handler) reject(w http.ResponseWriter, x *requestState) {
	v := &x.verdict
	retryAfter := wholeSeconds(h.Fields.RetryAfter(v))
	if lines, room := headerLines(w); lines != nil {
		h.rejectLines(w, lines, room, x, retryAfter)
		return
	}
	values := new(fieldValues) // the header refers to them, so they are not reused
	x.buf = h.Fields.fill(values, v, &h.policies, retryAfter, h.Now(), x.buf[:0])
	p := problemOf(v)
	x.buf = p.append(x.buf[:0], v, retryAfter)
	sendProblem(w, values, v.Status, x.buf)
}

// rejectLines does the same on a server that accepts header lines in wire format.
func (h *handler) rejectLines(
	w http.ResponseWriter, lines ProxyWriter, room []byte, x *requestState, retryAfter int64,
) {
	v := &x.verdict
	t := fieldText{buf: append(room, linesOfProblem...), known: &h.policies, lines: true}
	h.Fields.writeAll(&t, v, retryAfter, h.Now())
	lines.SetHeaderLines(t.buf, ofRejections)
	p := problemOf(v)
	x.buf = p.append(x.buf[:0], v, retryAfter)
	w.WriteHeader(v.Status)
	_, _ = w.Write(x.buf) // a client that has disconnected does not need it
}

// ofRejections are the fields that only this package may set in the response to a denied request.
var ofRejections = append(fieldNames[:], foreignFields[:]...)

const linesOfProblem = "Cache-Control: " + noStore + "\r\nContent-Type: " + problemJSON + "\r\n"

// badRequest responds to an ambiguous or malformed request.
func badRequest(w http.ResponseWriter, x *requestState, err error) {
	p := problem{status: http.StatusBadRequest, kind: problemPlain, title: "Bad Request", detail: err.Error()}
	x.buf = p.append(x.buf[:0], nil, 0)
	sendProblem(w, new(fieldValues), p.status, x.buf)
}

// gaveUp responds to a request that was cancelled while it was delayed. Mostly its client has disconnected and nobody
// reads this.
func gaveUp(w http.ResponseWriter, x *requestState, wait time.Duration) {
	p := problem{
		status: http.StatusServiceUnavailable, kind: problemPlain, title: "Service Unavailable",
		detail: "Given up while waiting for its turn.",
	}
	if lines, room := headerLines(w); lines != nil {
		lines.SetHeaderLines(room[:0], nil) // not the fields of a served request
	}
	values := new(fieldValues)
	seconds := wholeSeconds(wait)
	if seconds > 0 {
		values[fieldRetryAfter] = strconv.FormatInt(seconds, 10)
	}
	x.buf = p.append(x.buf[:0], nil, seconds)
	sendProblem(w, values, p.status, x.buf)
}

// foreignFields are fields that others may have set for a response that is not sent.
var foreignFields = [...]string{"Content-Encoding", "Content-Length", "Etag", "Last-Modified"}

// sendProblem sends a problem. It must not be cached: the next request may be allowed.
func sendProblem(w http.ResponseWriter, values *fieldValues, status int, body []byte) {
	header := w.Header()
	if len(header) > 0 {
		for _, name := range foreignFields {
			delete(header, name)
		}
	}
	values[fieldType], values[fieldCache] = problemJSON, noStore
	values.put(header)
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has disconnected does not need it
}

// drop closes the connection without a response. With HTTP/2, where requests share it, it ends only the stream.
func drop(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the way to tell the server
	}
	_ = conn.Close() // there is nobody to report to
}
