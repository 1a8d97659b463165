package downstream

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// appendFields appends the header, sorted by name, without the fields for which omit returns true.
func (w *response) appendFields(omit func(name string) bool) {
	w.names = w.names[:0]
	for name, lines := range w.header {
		// Names of unannounced trailers contain a colon, so they are not tokens.
		if len(lines) > 0 && http1.IsToken(name) && !omit(name) {
			w.names = append(w.names, name)
		}
	}
	slices.Sort(w.names)
	for _, name := range w.names {
		for _, value := range w.header[name] {
			w.out = appendField(w.out, name, value)
		}
	}
}

// appendTrailers appends the trailers.
func (w *response) appendTrailers() {
	var unannounced []string
	for name := range w.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && http1.IsToken(name) && !http1.FramesMessage(name) {
			unannounced = append(unannounced, name)
		}
	}
	slices.Sort(unannounced)
	for _, name := range unannounced {
		for _, value := range w.header[http.TrailerPrefix+name] {
			w.out = appendField(w.out, name, value)
		}
	}
	for _, name := range w.Trailers {
		for _, value := range w.header[name] {
			w.out = appendField(w.out, name, value)
		}
	}
}

// appendField appends a header line. Control characters in the value, which could end the line, become spaces.
func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	start := len(dst)
	dst = append(dst, strings.Trim(value, " \t\r\n")...)
	for i, c := range dst[start:] {
		if c < ' ' && c != '\t' || c == 0x7f {
			dst[start+i] = ' '
		}
	}
	return append(dst, "\r\n"...)
}

// appendStatus appends the status line.
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
