package resp

import (
	"bytes"
	"strconv"
	"strings"
)

// A protocolError reports malformed input. After such an error the start of the next command is unknown, so the
// connection is closed.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

const (
	errInline          protocolError = "too big inline request"
	errQuotes          protocolError = "unbalanced quotes in request"
	errCount           protocolError = "invalid multibulk length"
	errBulk            protocolError = "invalid bulk length"
	errBulkEnd         protocolError = "expected CRLF after bulk"
	errTooLong         protocolError = "too big request"
	errUnauthenticated protocolError = "unauthenticated multibulk length"
)

// sizeLimits contains the limits of the size of a command. The fields with the same names in Limits describe them.
type sizeLimits struct {
	inline, args, bulk, command int
}

// parse reads the command at the beginning of b. It appends the command's name and arguments to args, and returns the
// command's size in bytes. The arguments point into b. If the command is incomplete, the size is 0, and the caller must
// ignore the arguments. An empty command has a size but no arguments.
//
// A command is an array of strings, such as "*2\r\n$4\r\nECHO\r\n$1\r\na\r\n", or an inline command: a line of words,
// such as "ECHO a". parse removes the quotes of inline commands in b itself.
func (l *sizeLimits) parse(b []byte, args [][]byte) ([][]byte, int, error) {
	if len(b) == 0 {
		return args, 0, nil
	}
	if b[0] != '*' {
		return l.parseInline(b, args)
	}
	count, pos, ok := readNumber(b, 1)
	switch {
	case !ok:
		return args, 0, errCount
	case pos == 0:
		return args, 0, nil
	case count <= 0:
		return args, pos, nil
	case count > l.args:
		return args, 0, errCount
	}
	for range count {
		if pos == len(b) {
			return args, 0, l.checkSize(pos)
		}
		if b[pos] != '$' {
			return args, 0, protocolError("expected '$', got '" + printable(b[pos:pos+1]) + "'")
		}
		size, start, ok := readShortNumber(b, pos+1)
		if !ok {
			size, start, ok = readNumber(b, pos+1)
		}
		switch {
		case !ok || size < 0 || size > l.bulk:
			return args, 0, errBulk
		case start == 0:
			return args, 0, l.checkSize(pos)
		}
		pos = start + size + len("\r\n")
		if pos > len(b) {
			return args, 0, l.checkSize(pos)
		}
		if b[pos-2] != '\r' || b[pos-1] != '\n' {
			return args, 0, errBulkEnd
		}
		args = append(args, b[start:start+size])
	}
	return args, pos, l.checkSize(pos)
}

// checkSize returns an error if a command of at least n bytes is too long.
func (l *sizeLimits) checkSize(n int) error {
	if n > l.command {
		return errTooLong
	}
	return nil
}

// readShortNumber is a fast path of readNumber for numbers of one or two digits, the usual case. For any other input,
// ok is false, and the caller must call readNumber.
func readShortNumber(b []byte, pos int) (n, next int, ok bool) {
	if len(b)-pos < 4 {
		return 0, 0, false
	}
	four := b[pos : pos+4 : pos+4] // so that the compiler checks the bounds only once
	first, second := four[0]-'0', four[1]-'0'
	switch {
	case first > 9:
		return 0, 0, false
	case four[1] == '\r' && four[2] == '\n':
		return int(first), pos + 3, true
	case second <= 9 && four[2] == '\r' && four[3] == '\n':
		return int(first)*10 + int(second), pos + 4, true
	default:
		return 0, 0, false
	}
}

// readNumber reads the number from b[pos] to the end of its line. It returns the number and the position of the next
// line. The position is 0 if the line is incomplete. ok is false if the line is not a number of at most 9 characters.
func readNumber(b []byte, pos int) (n, next int, ok bool) {
	const maxLength = 9
	start, negative := pos, false
	for ; pos < len(b); pos++ {
		c := b[pos]
		switch {
		case '0' <= c && c <= '9':
			n = n*10 + int(c-'0')
			if pos-start == maxLength {
				return 0, 0, false
			}
		case c == '-' && pos == start:
			negative = true
		case c == '\r' && pos > start && (!negative || pos > start+1): // after at least one digit
			if pos+1 == len(b) {
				return 0, 0, true
			}
			if b[pos+1] != '\n' {
				return 0, 0, false
			}
			if negative {
				n = -n
			}
			return n, pos + 2, true
		default:
			return 0, 0, false
		}
	}
	return 0, 0, true
}

// parseInline does the same as parse for a command that is a line of words, as people type it.
func (l *sizeLimits) parseInline(b []byte, args [][]byte) ([][]byte, int, error) {
	end := bytes.IndexByte(b[:min(len(b), l.inline+1)], '\n')
	if end < 0 {
		if len(b) > l.inline {
			return args, 0, errInline
		}
		return args, 0, nil
	}
	line := b[:end]
	if end > 0 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	before := len(args)
	for {
		for len(line) > 0 && isSpace(line[0]) {
			line = line[1:]
		}
		if len(line) == 0 {
			return args, end + 1, nil
		}
		if len(args)-before == l.args {
			return args, 0, errCount
		}
		word, rest, ok := nextWord(line)
		if !ok {
			return args, 0, errQuotes
		}
		if len(word) > l.bulk {
			return args, 0, errBulk
		}
		args, line = append(args, word), rest
	}
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

// nextWord splits a line after its first word. It removes the quotes of a quoted word in line itself. This never makes
// the word longer. ok is false if a quote is not closed, or if the word continues after the closing quote.
func nextWord(line []byte) (word, rest []byte, ok bool) {
	n, pos := 0, 0 // the word so far is line[:n]
	for pos < len(line) && !isSpace(line[pos]) {
		switch c := line[pos]; c {
		case '"', '\'':
			length, next := unquote(line, n, pos)
			if next == 0 || next < len(line) && !isSpace(line[next]) {
				return nil, nil, false
			}
			return line[: n+length : n+length], line[next:], true
		default:
			line[n] = c
			n++
			pos++
		}
	}
	return line[:n:n], line[pos:], true
}

// unquote reads the quoted text that begins with the quote at line[pos]. It writes the text without quotes and escapes
// to line[n:]. It returns the length of the result and the position after the closing quote. The position is 0 if there
// is no closing quote.
func unquote(line []byte, n, pos int) (length, next int) {
	quote, start := line[pos], n
	for pos++; pos < len(line); pos++ {
		c := line[pos]
		switch {
		case c == quote:
			return n - start, pos + 1
		case c == '\\' && quote == '"' && pos+1 < len(line):
			pos++
			if c = line[pos]; c == 'x' && pos+2 < len(line) {
				if code, err := strconv.ParseUint(string(line[pos+1:pos+3]), 16, 8); err == nil {
					line[n] = byte(code)
					n++
					pos += 2
					continue
				}
			}
			line[n] = unescape(c)
		case c == '\\' && quote == '\'' && pos+1 < len(line) && line[pos+1] == '\'':
			pos++
			line[n] = '\''
		default:
			line[n] = c
		}
		n++
	}
	return 0, 0
}

// unescape returns the character that a backslash and c mean together.
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

// oneLine replaces the line breaks in text by spaces, because an error reply is one line.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' {
			return ' '
		}
		return r
	}, text)
}

// printable returns text of a client for an error reply: at most 128 bytes of it, with '?' for each byte that is not
// printable ASCII.
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
