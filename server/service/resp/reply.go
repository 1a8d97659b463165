package resp

import (
	"strconv"
)

// The append functions append a reply to dst.

// appendLine appends a line: a status after '+', or an error after '-', whose first word tells clients its kind.
func appendLine(dst []byte, sign byte, text string) []byte {
	dst = append(dst, sign)
	dst = append(dst, text...)
	return append(dst, '\r', '\n')
}

func appendInt(dst []byte, n int64) []byte {
	dst = append(dst, ':')
	if n >= 0 && n < 10 {
		return append(dst, '0'+byte(n), '\r', '\n')
	}
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, '\r', '\n')
}

// appendLength appends the header of an aggregate of n elements or bytes.
func appendLength(dst []byte, kind byte, n int) []byte {
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

func appendArray(dst []byte, n int) []byte { return appendLength(dst, '*', n) }

func appendBulk[T string | []byte](dst []byte, text T) []byte {
	dst = appendLength(dst, '$', len(text))
	dst = append(dst, text...)
	return append(dst, '\r', '\n')
}

// appendMap appends the header of a map of n pairs; in RESP2, of a list.
func (s *session) appendMap(dst []byte, n int) []byte {
	if s.proto >= 3 {
		return appendLength(dst, '%', n)
	}
	return appendArray(dst, 2*n)
}

// appendSet appends the header of a set; in RESP2, of a list.
func (s *session) appendSet(dst []byte, n int) []byte {
	if s.proto >= 3 {
		return appendLength(dst, '~', n)
	}
	return appendArray(dst, n)
}

// appendText appends a multi-line text for people.
func (s *session) appendText(dst []byte, text string) []byte {
	if s.proto < 3 {
		return appendBulk(dst, text)
	}
	dst = appendLength(dst, '=', len(text)+4)
	dst = append(dst, "txt:"...)
	dst = append(dst, text...)
	return append(dst, '\r', '\n')
}

func (s *session) appendNull(dst []byte) []byte {
	if s.proto >= 3 {
		return append(dst, "_\r\n"...)
	}
	return append(dst, "$-1\r\n"...)
}

// appendNullArray is appendNull in place of a list.
func (s *session) appendNullArray(dst []byte) []byte {
	if s.proto >= 3 {
		return append(dst, "_\r\n"...)
	}
	return append(dst, "*-1\r\n"...)
}
