package httplimit

import (
	"net/http"
	"strconv"
	"time"
)

// reject responds to a denied request.
func (h *handler) reject(w http.ResponseWriter, state *requestState) {
	v := &state.verdict
	retryAfter := wholeSeconds(h.Fields.RetryAfter(v))
	if lines, buf := headerLines(w); lines != nil {
		h.rejectLines(w, lines, buf, state, retryAfter)
		return
	}
	values := new(fieldValues) // a new one for each response, because the header shares its memory
	state.buf = h.Fields.setValues(values, v, retryAfter, h.Now(), state.buf[:0])
	p := problemOf(v)
	state.buf = p.append(state.buf[:0], v, retryAfter)
	sendProblem(w, values, v.Status, state.buf)
}

// rejectLines responds to a denied request if the server accepts header lines in wire format.
func (h *handler) rejectLines(
	w http.ResponseWriter, lines ProxyWriter, buf []byte, state *requestState, retryAfter int64,
) {
	state.rejection.prepare(&h.Fields, &state.verdict, retryAfter, h.Now(), &state.nextInputs)
	lines.SetHeaderLines(append(buf, state.rejection.lines...), rejectionNames)
	w.WriteHeader(state.verdict.Status)
	_, _ = w.Write(state.rejection.body) // fails only if the client has disconnected
}

// rejectionNames are the names of the fields that only the middleware may set in the response to a denied request.
var rejectionNames = append(fieldNames[:], replacedNames[:]...)

const problemLines = "Cache-Control: " + noStore + "\r\nContent-Type: " + problemJSON + "\r\n"

// badRequest responds to a malformed request with the error that describes it.
func badRequest(w http.ResponseWriter, state *requestState, err error) {
	p := problem{status: http.StatusBadRequest, kind: problemPlain, title: "Bad Request", detail: err.Error()}
	state.buf = p.append(state.buf[:0], nil, 0)
	sendProblem(w, new(fieldValues), p.status, state.buf)
}

// respondCanceled responds to a request whose context ended while it was delayed. Usually the client has disconnected.
func respondCanceled(w http.ResponseWriter, state *requestState, wait time.Duration) {
	p := problem{
		status: http.StatusServiceUnavailable, kind: problemPlain, title: "Service Unavailable",
		detail: "The request was canceled while it was delayed.",
	}
	if lines, buf := headerLines(w); lines != nil {
		lines.SetHeaderLines(buf[:0], nil) // removes the lines for a served request
	}
	values := new(fieldValues)
	seconds := wholeSeconds(wait)
	if seconds > 0 {
		values[fieldRetryAfter] = strconv.FormatInt(seconds, 10)
	}
	state.buf = p.append(state.buf[:0], nil, seconds)
	sendProblem(w, values, p.status, state.buf)
}

// replacedNames are fields that describe a body. Outer handlers may have set them for the body that the problem
// replaces.
var replacedNames = [...]string{"Content-Encoding", "Content-Length", "Etag", "Last-Modified"}

// sendProblem sends a problem as an uncacheable response, because the next request may be allowed.
func sendProblem(w http.ResponseWriter, values *fieldValues, status int, body []byte) {
	header := w.Header()
	if len(header) > 0 {
		for _, name := range replacedNames {
			delete(header, name)
		}
	}
	values[fieldContentType], values[fieldCacheControl] = problemJSON, noStore
	values.setIn(header)
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the client has disconnected
}

// drop closes the connection without a response. In HTTP/2, it ends only the stream, because other requests share the
// connection.
func drop(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the server then closes the connection or ends the stream
	}
	_ = conn.Close()
}
