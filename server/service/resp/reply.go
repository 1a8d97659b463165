package resp

import (
	"strconv"
)

// The append functions append a reply, or a part of one, to dst.

// appendLine appends a reply of one line. kind is '+' for a status and '-' for an error. The first word of an error is
// its kind, such as NOAUTH.
func appendLine(dst []byte, kind byte, text string) []byte {
	dst = append(dst, kind)
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

// appendLength appends the header of a reply that consists of n elements or bytes.
func appendLength(dst []byte, kind byte, n int) []byte {
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

// appendArray appends the header of an array of n elements.
func appendArray(dst []byte, n int) []byte { return appendLength(dst, '*', n) }

func appendBulk[T string | []byte](dst []byte, text T) []byte {
	dst = appendLength(dst, '$', len(text))
	dst = append(dst, text...)
	return append(dst, '\r', '\n')
}

// appendMap appends the header of a map of n pairs. RESP2 has no maps, so it gets an array of 2n elements.
func (s *session) appendMap(dst []byte, n int) []byte {
	if s.proto >= 3 {
		return appendLength(dst, '%', n)
	}
	return appendArray(dst, 2*n)
}

// appendSet appends the header of a set of n elements. RESP2 has no sets, so it gets an array.
func (s *session) appendSet(dst []byte, n int) []byte {
	if s.proto >= 3 {
		return appendLength(dst, '~', n)
	}
	return appendArray(dst, n)
}

// appendText appends a text of several lines that people read.
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

// appendNullArray appends a null reply where clients expect an array; in RESP2 it differs from appendNull.
func (s *session) appendNullArray(dst []byte) []byte {
	if s.proto >= 3 {
		return append(dst, "_\r\n"...)
	}
	return append(dst, "*-1\r\n"...)
}
