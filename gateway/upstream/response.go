package upstream

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/gateway/internal/http1"
)

// A responseHead is the head of a response, in which all that concerns the connection has been read and taken out.
type responseHead struct {
	status  int
	length  int64         // of the Content-Length; −1 if there is none
	chunked bool          // the body is in chunks
	ends    bool          // the connection ends with this response
	keep    time.Duration // how long the upstream keeps the connection; 0 if it does not say
	stream  bool          // it is a stream of events, of which each is to arrive at once
	typed   bool          // there is a Content-Type
	fields  []http1.Field // what is for the client
	trailer []string      // announced, in net/http's form
	named   []string      // by Connection
}

// parse reads a head, which ends with its empty line. Names are brought into net/http's form in block itself.
func (h *responseHead) parse(block []byte) error {
	*h = responseHead{length: -1, fields: h.fields[:0], trailer: h.trailer[:0], named: h.named[:0]}
	line, rest, err := cutLine(block, false)
	if err != nil {
		return err
	}
	old, err := h.parseStatus(line)
	if err != nil {
		return err
	}
	if h.fields, err = parseFields(block, rest, h.fields, false); err != nil {
		return err
	}
	return h.read(block, old)
}

// parseStatus reads the status line. old tells that the version is HTTP/1.0.
func (h *responseHead) parseStatus(line []byte) (old bool, err error) {
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

// cutLine returns the line at the beginning of b, without what ends it, and where the next begins. b holds its end.
func cutLine(b []byte, strict bool) (line []byte, next int, err error) {
	end := bytes.IndexByte(b, '\n')
	if end > 0 && b[end-1] == '\r' {
		return b[:end-1], end + 1, nil
	}
	if strict {
		return nil, 0, errBareLF
	}
	return b[:end], end + 1, nil
}

// parseFields appends the header lines in block from pos on to fields, up to the empty line. If strict, each line must end
// with CR and LF.
func parseFields(block []byte, pos int, fields []http1.Field, strict bool) ([]http1.Field, error) {
	for {
		line, next, err := cutLine(block[pos:], strict)
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

// read takes what concerns the connection from the fields, and leaves those for the client.
func (h *responseHead) read(block []byte, old bool) error {
	var closes, keeps, encoded bool
	kept := h.fields[:0]
	for _, f := range h.fields {
		value := f.Value.Bytes(block)
		switch string(f.Name.Bytes(block)) {
		case "Content-Length":
			if h.length >= 0 {
				// It was valid, so equal numbers may still be written differently; net/http refuses that too.
				if string(value) != lengthText(block, kept) {
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
			if encoded || old || !strings.EqualFold(string(value), "chunked") {
				return errEncoding
			}
			encoded, h.chunked = true, true
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
			h.keep = parseKeepAlive(string(value))
			continue
		case "Trailer":
			for name := range http1.Elements(string(value)) {
				h.trailer = append(h.trailer, name)
			}
			continue
		case "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Upgrade", "Http2-Settings":
			continue
		case "Content-Type":
			h.typed = true
			h.stream = http1.IsEventStream(string(value))
		}
		kept = append(kept, f)
	}
	h.fields = kept
	if h.chunked && h.length >= 0 {
		return errBoth
	}
	h.ends = closes || old && !keeps
	if len(h.named) > 0 {
		h.dropNamed(block)
	}
	return h.readTrailer()
}

// lengthText is the Content-Length that was kept.
func lengthText(block []byte, fields []http1.Field) string {
	for _, f := range fields {
		if string(f.Name.Bytes(block)) == "Content-Length" {
			return string(f.Value.Bytes(block))
		}
	}
	return ""
}

// readConnection reads the options of a connection. What is no option that we know names headers that are for us only.
func (h *responseHead) readConnection(value string, closes, keeps bool) (bool, bool) {
	for option := range http1.Elements(value) {
		switch {
		case strings.EqualFold(option, "close"):
			closes = true
		case strings.EqualFold(option, "keep-alive"):
			keeps = true
		default:
			h.named = append(h.named, option)
		}
	}
	return closes, keeps
}

func (h *responseHead) dropNamed(block []byte) {
	kept := h.fields[:0]
next:
	for _, f := range h.fields {
		name := string(f.Name.Bytes(block))
		for _, n := range h.named {
			if strings.EqualFold(n, name) {
				h.typed = h.typed && name != "Content-Type"
				continue next
			}
		}
		kept = append(kept, f)
	}
	h.fields = kept
}

// readTrailer checks the names that were announced, and keeps those that may pass.
func (h *responseHead) readTrailer() error {
	if !h.chunked {
		h.trailer = h.trailer[:0]
		return nil
	}
	kept := h.trailer[:0]
	for _, name := range h.trailer {
		name = http1.CanonicalName(name)
		if http1.FramesMessage(name) {
			return errTrailerName
		}
		if http1.MayTrail(name) {
			kept = append(kept, name)
		}
	}
	h.trailer = kept
	return nil
}

// parseKeepAlive reads the timeout of a Keep-Alive header, such as "timeout=5, max=100".
func parseKeepAlive(value string) time.Duration {
	var keep time.Duration
	for parameter := range http1.Elements(value) {
		name, seconds, _ := strings.Cut(parameter, "=")
		if n, err := strconv.ParseUint(http1.Trim(seconds), 10, 31); err == nil && strings.EqualFold(http1.Trim(name), "timeout") {
			keep = time.Duration(n) * time.Second
		}
	}
	return keep
}

// bodyless reports whether a response to this method has no body, whatever its headers say.
func (h *responseHead) bodyless(method string) bool {
	return http1.BodyForbidden(h.status) || method == "HEAD"
}
