package upstream

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// A responseHead is the parsed head of a response, without its hop-by-hop fields.
type responseHead struct {
	status            int
	length            int64 // the Content-Length; -1 if there is none
	chunked           bool
	closesConn        bool          // the upstream closes the connection after this response
	keepAlive         time.Duration // how long the upstream keeps an idle connection; 0 if it is not stated
	eventStream       bool          // server-sent events, which are flushed after each read
	hasContentType    bool
	fields            []http1.Field // passed on to the client
	announcedTrailers []string      // names in canonical form
	connectionNames   []string      // names of hop-by-hop fields that Connection lists
}

// emptyCopy returns an empty head that reuses the memory of h.
func (h *responseHead) emptyCopy() responseHead {
	return responseHead{
		fields: h.fields[:0], announcedTrailers: h.announcedTrailers[:0], connectionNames: h.connectionNames[:0],
	}
}

// parse parses a complete head. It converts names to canonical form in place, in block.
func (h *responseHead) parse(block []byte) error {
	*h = h.emptyCopy()
	h.length = -1
	line, rest, err := cutLine(block, crlfOrLF)
	if err != nil {
		return err
	}
	http10, err := h.parseStatus(line)
	if err != nil {
		return err
	}
	if h.fields, err = parseFields(block, rest, h.fields, crlfOrLF); err != nil {
		return err
	}
	return h.readFields(block, http10)
}

// parseStatus parses the status line. It reports whether the version is HTTP/1.0.
func (h *responseHead) parseStatus(line []byte) (http10 bool, err error) {
	const version = "HTTP/1."
	if len(line) < len(version)+2 || string(line[:5]) != version[:5] {
		return false, errStatusLine
	}
	minor := line[len(version)]
	if string(line[5:len(version)]) != version[5:] || minor < '0' || minor > '9' {
		return false, errVersion
	}
	code := line[len(version)+1:]
	if code[0] != ' ' {
		return false, errStatusLine
	}
	code = bytes.TrimLeft(code, " ")
	if len(code) < 3 || len(code) > 3 && code[3] != ' ' || !http1.IsValue(code) {
		return false, errStatusLine
	}
	for _, c := range code[:3] {
		if c < '0' || c > '9' {
			return false, errStatusLine
		}
		h.status = h.status*10 + int(c-'0')
	}
	if h.status < 100 {
		return false, errStatusLine
	}
	return minor == '0', nil
}

// A lineEnding determines how lines may end.
type lineEnding bool

const (
	crlfOrLF lineEnding = false
	crlfOnly lineEnding = true
)

// cutLine returns the first line of b without its line ending, and the position of the next line.
func cutLine(b []byte, ending lineEnding) (line []byte, next int, err error) {
	end := bytes.IndexByte(b, '\n')
	if end > 0 && b[end-1] == '\r' {
		return b[:end-1], end + 1, nil
	}
	if ending == crlfOnly {
		return nil, 0, errBareLF
	}
	return b[:end], end + 1, nil
}

// parseFields parses the header lines of block from pos up to the empty line, and appends them to fields.
func parseFields(block []byte, pos int, fields []http1.Field, ending lineEnding) ([]http1.Field, error) {
	for {
		line, next, err := cutLine(block[pos:], ending)
		if err != nil {
			return fields, err
		}
		if len(line) == 0 {
			return fields, nil
		}
		if line[0] == ' ' || line[0] == '\t' {
			return fields, errFolded
		}
		f, err := http1.ParseField(block, pos, pos+len(line))
		if err != nil {
			return fields, err
		}
		fields = append(fields, f)
		pos += next
	}
}

// readFields reads the fields about framing and the connection, and removes the hop-by-hop fields from h.fields.
func (h *responseHead) readFields(block []byte, http10 bool) error {
	var closes, keeps, hasEncoding bool
	endToEnd := h.fields[:0]
	for _, f := range h.fields {
		value := f.Value.Bytes(block)
		switch string(f.Name.Bytes(block)) {
		case "Content-Length":
			if h.length >= 0 {
				// Like net/http, refuse equal numbers that are written differently.
				if string(value) != lengthText(block, endToEnd) {
					return errLengths
				}
				continue
			}
			n, ok := http1.ParseLength(value)
			if !ok {
				return errLength
			}
			h.length = n
		case "Transfer-Encoding":
			if hasEncoding || http10 || !strings.EqualFold(string(value), "chunked") {
				return errEncoding
			}
			hasEncoding, h.chunked = true, true
			continue
		case "Connection":
			switch {
			case strings.EqualFold(string(value), "keep-alive"):
				keeps = true
			case strings.EqualFold(string(value), "close"):
				closes = true
			default:
				closes, keeps = h.readConnection(string(value), closes, keeps)
			}
			continue
		case "Keep-Alive":
			h.keepAlive = parseKeepAlive(string(value))
			continue
		case "Trailer":
			for name := range http1.Elements(string(value)) {
				h.announcedTrailers = append(h.announcedTrailers, name)
			}
			continue
		case "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Upgrade", "Http2-Settings":
			continue
		case "Content-Type":
			h.hasContentType = true
			h.eventStream = http1.IsEventStream(string(value))
		}
		endToEnd = append(endToEnd, f)
	}
	h.fields = endToEnd
	if h.chunked && h.length >= 0 {
		return errLengthAndEncoding
	}
	h.closesConn = closes || http10 && !keeps
	if len(h.connectionNames) > 0 {
		h.removeConnectionNames(block)
	}
	return h.readAnnouncedTrailers()
}

// lengthText returns the value of the first Content-Length as it was written.
func lengthText(block []byte, fields []http1.Field) string {
	for _, f := range fields {
		if string(f.Name.Bytes(block)) == "Content-Length" {
			return string(f.Value.Bytes(block))
		}
	}
	return ""
}

// readConnection reads the options of a Connection field. Unknown options are names of hop-by-hop fields. It returns
// closes and keeps, each set to true if the option close or keep-alive is present.
func (h *responseHead) readConnection(value string, closes, keeps bool) (bool, bool) {
	for option := range http1.Elements(value) {
		switch {
		case strings.EqualFold(option, "close"):
			closes = true
		case strings.EqualFold(option, "keep-alive"):
			keeps = true
		default:
			h.connectionNames = append(h.connectionNames, option)
		}
	}
	return closes, keeps
}

func (h *responseHead) removeConnectionNames(block []byte) {
	remaining := h.fields[:0]
next:
	for _, f := range h.fields {
		name := string(f.Name.Bytes(block))
		for _, n := range h.connectionNames {
			if strings.EqualFold(n, name) {
				h.hasContentType = h.hasContentType && name != "Content-Type"
				continue next
			}
		}
		remaining = append(remaining, f)
	}
	h.fields = remaining
}

// readAnnouncedTrailers checks the names of announced trailers, and keeps those that may be forwarded.
func (h *responseHead) readAnnouncedTrailers() error {
	if !h.chunked {
		h.announcedTrailers = h.announcedTrailers[:0]
		return nil
	}
	allowed := h.announcedTrailers[:0]
	for _, name := range h.announcedTrailers {
		name = http1.CanonicalName(name)
		if http1.FramesMessage(name) {
			return errTrailerName
		}
		if http1.MayTrail(name) {
			allowed = append(allowed, name)
		}
	}
	h.announcedTrailers = allowed
	return nil
}

// parseKeepAlive returns the timeout of a Keep-Alive header, such as "timeout=5, max=100".
func parseKeepAlive(value string) time.Duration {
	var timeout time.Duration
	for parameter := range http1.Elements(value) {
		name, seconds, _ := strings.Cut(parameter, "=")
		n, err := strconv.ParseUint(http1.Trim(seconds), 10, 31)
		if err == nil && strings.EqualFold(http1.Trim(name), "timeout") {
			timeout = time.Duration(n) * time.Second
		}
	}
	return timeout
}

// hasNoBody reports whether a response to a request of this method has no body, whatever its header says.
func (h *responseHead) hasNoBody(method string) bool {
	return http1.BodyForbidden(h.status) || method == "HEAD"
}
