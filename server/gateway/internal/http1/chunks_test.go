package http1

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// dechunk decodes a body that arrives in pieces of a size.
func dechunk(body string, size int) (data, rest string, err error) {
	var c Chunks
	var out bytes.Buffer
	var b []byte
	for {
		piece, used, err := c.Next(b)
		out.Write(piece)
		b = b[used:]
		if err != nil {
			return out.String(), string(b) + body, err
		}
		if len(piece) > 0 {
			continue
		}
		if body == "" {
			return out.String(), string(b), io.ErrUnexpectedEOF
		}
		n := min(size, len(body))
		b = append(slices.Clone(b), body[:n]...)
		body = body[n:]
	}
}

func TestChunksAreDecoded(t *testing.T) {
	for _, tt := range []struct {
		body, data, rest string
		err              error
	}{
		{"0\r\n\r\n", "", "\r\n", io.EOF},
		{"3\r\nabc\r\n0\r\n\r\n", "abc", "\r\n", io.EOF},
		{"3;x=y\r\nabc\r\n00A \t\r\n0123456789\r\n000\r\nX: y\r\n\r\n", "abc0123456789", "X: y\r\n\r\n", io.EOF},
		{"3\r\nabcd\r\n0\r\n\r\n", "abc", "", errChunkEnd},
		{"3\r\nabc\n0\r\n\r\n", "abc", "", errChunkEnd},
		{"3\nabc\r\n0\r\n\r\n", "", "", errChunkLine},
		{"3\r \r\nabc\r\n0\r\n\r\n", "", "", errChunkLine},
		{"3;a\rb\r\nabc\r\n0\r\n\r\n", "", "", errChunkLine},
		{"\r\n", "", "", errChunkSize},
		{";x\r\n", "", "", errChunkSize},
		{"-1\r\n", "", "", errChunkSize},
		{"+1\r\n", "", "", errChunkSize},
		{"0x1\r\n", "", "", errChunkSize},
		{" 1\r\n", "", "", errChunkSize},
		{"1 ;x\r\n", "", "", errChunkSize},
		{"1g\r\n", "", "", errChunkSize},
		{"FFFFFFFFFFFFFFFF\r\nabc", "", "", errChunkSize},
		{"10000000000000000\r\nabc", "", "", errChunkSize},
		{"10000000000000005\r\nabcde\r\n0\r\n\r\n", "", "", errChunkSize},
		{"00000000000000003\r\nabc\r\n0\r\n\r\n", "", "", errChunkSize},
		{"3\r\nab", "ab", "", io.ErrUnexpectedEOF},
		{"3\r\nabc\r\n", "abc", "", io.ErrUnexpectedEOF},
		{"1;" + strings.Repeat("x", 5000) + "\r\na\r\n", "", "", errChunkLine},
		{strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\na\r\n", 30), strings.Repeat("a", 16), "", errChunkOverhead},
		{strings.Repeat("1\r\na\r\n", 30_000) + "0\r\n\r\n", strings.Repeat("a", 30_000), "\r\n", io.EOF},
	} {
		for _, size := range []int{1, 2, 3, 7, len(tt.body)} {
			data, rest, err := dechunk(tt.body, size)
			if data != tt.data || !errors.Is(err, tt.err) || errors.Is(err, io.EOF) && rest != tt.rest {
				t.Errorf("%.60q by %d bytes:\n got %.40q, rest %.40q, %v\nwant %.40q, rest %.40q, %v", tt.body, size, data, rest, err, tt.data, tt.rest, tt.err)
			}
		}
	}
}
