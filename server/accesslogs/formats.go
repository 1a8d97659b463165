package accesslogs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// detect returns the format of a line. It returns false if the line is in none of the formats.
func detect(line []byte) (f Format, found bool) {
	var r Request
	r.Attributes = map[string]string{}
	switch {
	case line[0] == '{' && json.Valid(line):
		return JSON, true
	case parseCombined(line, &r) == nil:
		return Combined, true
	case parseCommon(line, &r) == nil:
		return Common, true
	case splitHeader(line) != nil:
		return CSV, true
	}
	return Auto, false
}

// setFormat sets the parser of a format.
func (r *Reader) setFormat(f Format) error {
	switch f {
	case Auto:
		return nil
	case Common:
		r.parse = parseCommon
	case Combined:
		r.parse = parseCombined
	case JSON:
		r.parse = parseJSON
	case CSV:
		r.parse = (&csvParser{}).parse
	default:
		return fmt.Errorf("format %q: want auto, common, combined, json or csv", string(f))
	}
	r.stats.Format = f
	return nil
}

// parseCommon parses a line such as
//
//	192.0.2.1 - alice [10/Oct/2026:13:55:36 +0000] "GET /search?q=a HTTP/1.1" 200 2326
func parseCommon(line []byte, into *Request) error {
	_, err := parseCommonPart(line, into)
	return err
}

// parseCombined parses a common line that ends with the quoted referrer and user agent. Further fields are ignored.
func parseCombined(line []byte, into *Request) error {
	rest, err := parseCommonPart(line, into)
	if err != nil {
		return err
	}
	for _, name := range [...]string{"header.referer", "header.user-agent"} {
		rest = bytes.TrimLeft(rest, " ")
		value, after, ok := cutQuoted(rest)
		if !ok {
			return errFormat
		}
		into.setAttribute(name, value)
		rest = after
	}
	return nil
}

func parseCommonPart(line []byte, into *Request) (rest []byte, err error) {
	open := bytes.IndexByte(line, '[')
	if open < 0 {
		return nil, errFormat
	}
	fields := strings.Fields(string(line[:open]))
	if len(fields) < 3 {
		return nil, errFormat
	}
	end := bytes.IndexByte(line[open:], ']')
	if end < 0 {
		return nil, errFormat
	}
	at, ok := parseTime(string(line[open+1 : open+end]))
	if !ok {
		return nil, errTime
	}
	request, rest, ok := cutQuoted(bytes.TrimLeft(line[open+end+1:], " "))
	if !ok {
		return nil, errFormat
	}
	into.Time = at
	into.setAttribute("ip", fields[0])
	into.setAttribute("user", strings.Join(fields[2:], " ")) // a user name may have spaces
	if !into.setRequestLine(request) {
		return nil, fmt.Errorf("%w: the request is not METHOD PATH", errFormat)
	}
	rest = bytes.TrimLeft(rest, " ")
	status, rest, _ := bytes.Cut(rest, []byte(" "))
	into.setStatus(string(status))
	_, rest, _ = bytes.Cut(rest, []byte(" ")) // bytes sent
	return rest, nil
}

// cutQuoted splits b, which begins with a quoted text, into the unescaped text and the rest.
func cutQuoted(b []byte) (text string, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return "", b, false
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			text = string(b[1:i])
			if strings.IndexByte(text, '\\') >= 0 {
				text = unescape(text)
			}
			return text, b[i+1:], true
		}
	}
	return "", b, false
}

// unescape resolves \" and \\, and \xHH as nginx and Apache write them.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		if text[i] == 'x' && i+2 < len(text) {
			high, low := hexDigit(text[i+1]), hexDigit(text[i+2])
			if high >= 0 && low >= 0 {
				b.WriteByte(byte(high<<4 | low))
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// hexDigit returns the value of a hexadecimal digit, or -1 for another character. c|0x20 is the lower case of a letter.
func hexDigit(c byte) int { return strings.IndexByte("0123456789abcdef", c|0x20) }
