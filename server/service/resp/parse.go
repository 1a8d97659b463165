package resp

import (
	"bytes"
	"strconv"
	"strings"
)

// A protocolError is malformed input. The start of the next command is unknown, so the connection ends.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

const (
	errInline    protocolError = "too big inline request"
	errQuotes    protocolError = "unbalanced quotes in request"
	errCount     protocolError = "invalid multibulk length"
	errBulk      protocolError = "invalid bulk length"
	errBulkEnd   protocolError = "expected CRLF after bulk"
	errTooLong   protocolError = "too big request"
	errAnonymous protocolError = "unauthenticated multibulk length"
)

// bounds are the size limits of a command.
type bounds struct {
	inline, args, bulk, command int
}

// parse reads the command at the start of b. It appends the arguments, which point into b, to args, and returns the
// command's size in bytes: 0 if it is incomplete. A command without arguments is ignored.
//
// Quoted arguments of inline commands are unquoted in place.
func (s *bounds) parse(b []byte, args [][]byte) ([][]byte, int, error) {
	if len(b) == 0 {
		return args, 0, nil
	}
	if b[0] != '*' {
		return s.parseInline(b, args)
	}
	count, at, ok := readNumber(b, 1)
	switch {
	case !ok:
		return args, 0, errCount
	case at == 0:
		return args, 0, nil
	case count <= 0:
		return args, at, nil
	case count > s.args:
		return args, 0, errCount
	}
	for range count {
		if at == len(b) {
			return args, 0, s.checkSize(at)
		}
		if b[at] != '$' {
			return args, 0, protocolError("expected '$', got '" + printable(b[at:at+1]) + "'")
		}
		size, from, ok := readShortNumber(b, at+1)
		if !ok {
			size, from, ok = readNumber(b, at+1)
		}
		switch {
		case !ok || size < 0 || size > s.bulk:
			return args, 0, errBulk
		case from == 0:
			return args, 0, s.checkSize(at)
		}
		at = from + size + 2
		if at > len(b) {
			return args, 0, s.checkSize(at)
		}
		if b[at-2] != '\r' || b[at-1] != '\n' {
			return args, 0, errBulkEnd
		}
		args = append(args, b[from:from+size])
	}
	return args, at, s.checkSize(at)
}

// checkSize returns an error if a command of at least n bytes is too long.
func (s *bounds) checkSize(n int) error {
	if n > s.command {
		return errTooLong
	}
	return nil
}

// readShortNumber is readNumber for one or two digits, the usual case; ok is false for others.
func readShortNumber(b []byte, at int) (n, next int, ok bool) {
	if len(b)-at < 4 {
		return 0, 0, false
	}
	four := b[at : at+4 : at+4]
	first, second := four[0]-'0', four[1]-'0'
	switch {
	case first > 9:
		return 0, 0, false
	case four[1] == '\r' && four[2] == '\n':
		return int(first), at + 3, true
	case second <= 9 && four[2] == '\r' && four[3] == '\n':
		return int(first)*10 + int(second), at + 4, true
	default:
		return 0, 0, false
	}
}

// readNumber reads a number that ends its line, and returns the start of the next line: 0 if the line is incomplete. ok
// is false if there is no number, or if it has more than 9 characters.
func readNumber(b []byte, at int) (n, next int, ok bool) {
	from, negative := at, false
	for ; at < len(b); at++ {
		c := b[at]
		switch {
		case c-'0' <= 9:
			n = n*10 + int(c-'0')
			if at-from == 9 {
				return 0, 0, false
			}
		case c == '-' && at == from && !negative:
			negative = true
		case c == '\r' && at > from && (!negative || at > from+1):
			if at+1 == len(b) {
				return 0, 0, true
			}
			if b[at+1] != '\n' {
				return 0, 0, false
			}
			if negative {
				n = -n
			}
			return n, at + 2, true
		default:
			return 0, 0, false
		}
	}
	return 0, 0, true
}

// parseInline reads a command that is a line of words, as people type it.
func (s *bounds) parseInline(b []byte, args [][]byte) ([][]byte, int, error) {
	end := bytes.IndexByte(b[:min(len(b), s.inline+1)], '\n')
	if end < 0 {
		if len(b) > s.inline {
			return args, 0, errInline
		}
		return args, 0, nil
	}
	line := b[:end]
	if end > 0 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	first := len(args)
	for {
		for len(line) > 0 && isSpace(line[0]) {
			line = line[1:]
		}
		if len(line) == 0 {
			return args, end + 1, nil
		}
		if len(args)-first == s.args {
			return args, 0, errCount
		}
		word, rest, ok := nextWord(line)
		if !ok {
			return args, 0, errQuotes
		}
		if len(word) > s.bulk {
			return args, 0, errBulk
		}
		args, line = append(args, word), rest
	}
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

// nextWord cuts the first word off a line. Quoted text is unquoted in place, which never makes it longer.
func nextWord(line []byte) (word, rest []byte, ok bool) {
	n, at := 0, 0 // the word is line[:n]
	for at < len(line) && !isSpace(line[at]) {
		switch c := line[at]; c {
		case '"', '\'':
			length, next := unquote(line, n, at)
			if next == 0 || next < len(line) && !isSpace(line[next]) {
				return nil, nil, false
			}
			return line[: n+length : n+length], line[next:], true
		default:
			line[n] = c
			n++
			at++
		}
	}
	return line[:n:n], line[at:], true
}

// unquote writes the text quoted at at to line[n:]. It returns its length and the end of the quotes: 0 if there is no
// closing quote.
func unquote(line []byte, n, at int) (length, next int) {
	quote, from := line[at], n
	for at++; at < len(line); at++ {
		c := line[at]
		switch {
		case c == quote:
			return n - from, at + 1
		case c == '\\' && quote == '"' && at+1 < len(line):
			at++
			if c = line[at]; c == 'x' && at+2 < len(line) {
				if code, err := strconv.ParseUint(string(line[at+1:at+3]), 16, 8); err == nil {
					line[n] = byte(code)
					n++
					at += 2
					continue
				}
			}
			line[n] = unescape(c)
		case c == '\\' && quote == '\'' && at+1 < len(line) && line[at+1] == '\'':
			at++
			line[n] = '\''
		default:
			line[n] = c
		}
		n++
	}
	return 0, 0
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	default:
		return c
	}
}

// oneLine returns a text without line breaks, for an error reply.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' {
			return ' '
		}
		return r
	}, text)
}

// printable returns a client's text for an error reply, shortened and in ASCII.
func printable(b []byte) string {
	const maxLength = 128
	out := make([]byte, 0, min(len(b), maxLength))
	for _, c := range b[:min(len(b), maxLength)] {
		if c < ' ' || c >= 0x7f {
			c = '?'
		}
		out = append(out, c)
	}
	return string(out)
}
