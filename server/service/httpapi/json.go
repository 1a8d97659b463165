package httpapi

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A jsonError describes a problem at a position in a text.
type jsonError struct {
	pos     int // byte index in the text
	problem string
	want    string
}

func (e *jsonError) Error() string {
	if e.want == "" {
		return e.problem
	}
	return e.problem + ": want " + e.want
}

// position returns the line and column of a byte index. Both start at 1. The column counts characters.
func position(text string, index int) (line, column int) {
	before := text[:min(index, len(text))]
	line = 1 + strings.Count(before, "\n")
	before = before[strings.LastIndexByte(before, '\n')+1:]
	return line, 1 + utf8.RuneCountInString(before)
}

// A jsonReader reads JSON (RFC 8259) of a known structure, token by token. The caller stops at the first token that
// does not fit. It does not skip unknown values, so the nesting is limited by the structure. The strings that it
// returns are parts of the text, or copies if they have escapes.
type jsonReader struct {
	text string
	pos  int
}

func (r *jsonReader) skipSpace() {
	for r.pos < len(r.text) {
		switch r.text[r.pos] {
		case ' ', '\n', '\t', '\r':
			r.pos++
		default:
			return
		}
	}
}

// peek returns the next byte after white space, or 0 at the end.
func (r *jsonReader) peek() byte {
	r.skipSpace()
	if r.pos < len(r.text) {
		return r.text[r.pos]
	}
	return 0
}

// take consumes c if it is next.
func (r *jsonReader) take(c byte) bool {
	if r.peek() == c && r.pos < len(r.text) {
		r.pos++
		return true
	}
	return false
}

// takeNull consumes a null if it is next. A null field counts as absent.
func (r *jsonReader) takeNull() bool {
	if r.peek() == 'n' && strings.HasPrefix(r.text[r.pos:], "null") {
		r.pos += len("null")
		return true
	}
	return false
}

// unexpected returns an error about the next token.
func (r *jsonReader) unexpected(want string) error {
	c := r.peek()
	if r.pos >= len(r.text) {
		return &jsonError{r.pos, "the text ends here", want}
	}
	found := "unexpected "
	switch {
	case c == '{':
		found += "object"
	case c == '[':
		found += "array"
	case c == '"':
		found += "string"
	case c == '-' || c >= '0' && c <= '9':
		found += "number"
	default:
		char, _ := utf8.DecodeRuneInString(r.text[r.pos:])
		found += strconv.QuoteRune(char)
	}
	return &jsonError{r.pos, found, want}
}

// takeObjectStart consumes the beginning of an object.
func (r *jsonReader) takeObjectStart(want string) error {
	if !r.take('{') {
		return r.unexpected(want)
	}
	return nil
}

// readName returns the name of the next member of an object and its position, and consumes the colon. more is false at
// the end of the object.
func (r *jsonReader) readName(first bool) (name string, pos int, more bool, err error) {
	switch {
	case r.take('}'):
		return "", 0, false, nil
	case !first && !r.take(','):
		return "", 0, false, r.unexpected(`"," or "}"`)
	}
	r.skipSpace()
	pos = r.pos
	if r.peek() != '"' {
		return "", 0, false, r.unexpected("the name of a field in quotes")
	}
	if name, err = r.readString("the name of a field"); err != nil {
		return "", 0, false, err
	}
	if !r.take(':') {
		return "", 0, false, r.unexpected(`":"`)
	}
	return name, pos, true, nil
}

// checkEnd checks that nothing follows.
func (r *jsonReader) checkEnd() error {
	if r.peek(); r.pos < len(r.text) {
		return r.unexpected("nothing more")
	}
	return nil
}

// readString returns a string.
func (r *jsonReader) readString(want string) (string, error) {
	if !r.take('"') {
		return "", r.unexpected(want)
	}
	start, ascii := r.pos, true
	for i := start; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == '"':
			s := r.text[start:i]
			if !ascii && !utf8.ValidString(s) {
				return "", notUTF8(s, start)
			}
			r.pos = i + 1
			return s, nil
		case c == '\\':
			return r.readEscaped(start, i)
		case c < ' ':
			return "", &jsonError{i, "control character in a string", `an escape such as \n`}
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", &jsonError{len(r.text), "the text ends within a string", `"`}
}

func notUTF8(s string, start int) error {
	for i, c := range s {
		if c == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return &jsonError{start + i, "a byte that is not UTF-8", "UTF-8"}
			}
		}
	}
	return &jsonError{start, "not UTF-8", "UTF-8"}
}

// readEscaped returns a string that begins at start and has its first escape at i.
func (r *jsonReader) readEscaped(start, i int) (string, error) {
	b := make([]byte, 0, i-start+32)
	from := start
	for i < len(r.text) {
		switch c := r.text[i]; {
		case c == '"':
			b = append(b, r.text[from:i]...)
			if !utf8.Valid(b) { // escapes are always valid UTF-8, so the error is in the text
				return "", notUTF8(r.text[start:i], start)
			}
			r.pos = i + 1
			return string(b), nil
		case c == '\\':
			b = append(b, r.text[from:i]...)
			var err error
			if b, i, err = r.escape(b, i); err != nil {
				return "", err
			}
			from = i
		case c < ' ':
			return "", &jsonError{i, "control character in a string", `an escape such as \n`}
		default:
			i++
		}
	}
	return "", &jsonError{len(r.text), "the text ends within a string", `"`}
}

// escape appends the character of the escape at i, and returns where the escape ends.
func (r *jsonReader) escape(dst []byte, i int) ([]byte, int, error) {
	if i+1 >= len(r.text) {
		return dst, i, &jsonError{len(r.text), "the text ends within a string", `"`}
	}
	switch c := r.text[i+1]; c {
	case '"', '\\', '/':
		return append(dst, c), i + 2, nil
	case 'b':
		return append(dst, '\b'), i + 2, nil
	case 'f':
		return append(dst, '\f'), i + 2, nil
	case 'n':
		return append(dst, '\n'), i + 2, nil
	case 'r':
		return append(dst, '\r'), i + 2, nil
	case 't':
		return append(dst, '\t'), i + 2, nil
	case 'u':
		unit, ok := r.readUnit(i)
		if !ok {
			return dst, i, &jsonError{i, "no such escape", `\u and four hexadecimal digits`}
		}
		i += unitLength
		if !utf16.IsSurrogate(unit) {
			return utf8.AppendRune(dst, unit), i, nil
		}
		// A character beyond 16 bits is written as two surrogates.
		second, ok := r.readUnit(i)
		char := utf16.DecodeRune(unit, second)
		if !ok || char == utf8.RuneError {
			return dst, i, &jsonError{i - unitLength, "half a character", "the other half behind it"}
		}
		return utf8.AppendRune(dst, char), i + unitLength, nil
	default:
		return dst, i, &jsonError{i, "no such escape", `\", \\, \/, \b, \f, \n, \r, \t or \u0000`}
	}
}

// unitLength is the length of \u0000.
const unitLength = 6

// readUnit returns the UTF-16 code unit of the \u0000 escape at i.
func (r *jsonReader) readUnit(i int) (rune, bool) {
	if i+unitLength > len(r.text) || r.text[i] != '\\' || r.text[i+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(r.text[i+2:i+unitLength], 16, 16)
	return rune(n), err == nil
}

// readInteger returns a number from 0 to maximum.
func (r *jsonReader) readInteger(maximum int64) (int64, error) {
	r.skipSpace()
	start, n, digits := r.pos, int64(0), 0
	for r.pos < len(r.text) && r.text[r.pos] >= '0' && r.text[r.pos] <= '9' {
		digit := int64(r.text[r.pos] - '0')
		if n > (maximum-digit)/10 {
			return 0, &jsonError{start, "number too large", integerUpTo(maximum)}
		}
		n = 10*n + digit
		digits++
		r.pos++
	}
	switch {
	case digits == 0:
		return 0, r.unexpected(integerUpTo(maximum))
	case digits > 1 && r.text[start] == '0':
		return 0, &jsonError{start, "number that begins with 0", integerUpTo(maximum)}
	case r.pos < len(r.text) && (r.text[r.pos] == '.' || r.text[r.pos]|0x20 == 'e'):
		return 0, &jsonError{start, "number that is no integer", integerUpTo(maximum)}
	}
	return n, nil
}

func integerUpTo(maximum int64) string {
	return "an integer from 0 to " + strconv.FormatInt(maximum, 10)
}
