package http1

import (
	"bytes"
	"errors"
	"io"
)

// Chunks decodes a chunked body (RFC 9112 section 7.1), up to its trailers. The zero value is ready to decode a body.
type Chunks struct {
	left     uint64 // bytes of the current chunk's data that were not decoded yet
	atEnd    bool   // the next bytes are the CRLF after a chunk's data
	overhead int64  // bytes that are not data, minus the allowance for them
}

const (
	// maxChunkLine is the maximum length of the line in front of a chunk, which has its size and extensions. Extensions
	// are ignored.
	maxChunkLine = 4096
	// maxOverhead and the allowances in begin are the same as in net/http. They allow chunks of single bytes, but not
	// long extensions with little data.
	maxOverhead = 16 << 10
)

// Reasons why a chunked body is refused.
var (
	errChunkLine     = errors.New("the line in front of a chunk is invalid")
	errChunkSize     = errors.New("the size of a chunk is invalid")
	errChunkEnd      = errors.New("a chunk does not end with CR and LF")
	errChunkOverhead = errors.New("the chunks have too little data for their overhead")
)

// Left returns how many bytes of the current chunk's data have not been decoded yet.
func (c *Chunks) Left() uint64 { return c.left }

// Next returns the first data in b, and how many bytes of b it has consumed, including the data. If it returns
// neither data nor an error, more bytes are needed. After the last chunk the error is io.EOF.
func (c *Chunks) Next(b []byte) (data []byte, used int, err error) {
	for {
		if c.left > 0 {
			n := int(min(c.left, uint64(len(b)-used)))
			if n == 0 {
				return nil, used, nil
			}
			c.left -= uint64(n)
			c.atEnd = c.left == 0
			return b[used : used+n], used + n, nil
		}
		if c.atEnd {
			if len(b)-used < 2 {
				if len(b)-used == 1 && b[used] != '\r' {
					return nil, used, errChunkEnd
				}
				return nil, used, nil
			}
			if b[used] != '\r' || b[used+1] != '\n' {
				return nil, used, errChunkEnd
			}
			used += 2
			c.atEnd = false
		}
		end := bytes.IndexByte(b[used:], '\n')
		if end < 0 {
			if len(b)-used > maxChunkLine {
				return nil, used, errChunkLine
			}
			return nil, used, nil
		}
		if err := c.begin(b[used : used+end+1]); err != nil {
			return nil, used, err
		}
		used += end + 1
		if c.left == 0 {
			return nil, used, io.EOF
		}
	}
}

// begin parses the line in front of a chunk.
func (c *Chunks) begin(line []byte) error {
	end := len(line) - 2
	// Parsers differ on a lone CR or LF, so neither may be in the line nor end it.
	if end < 0 || bytes.IndexByte(line, '\r') != end || end >= maxChunkLine {
		return errChunkLine
	}
	c.overhead += int64(len(line))
	line = line[:end]
	for len(line) > 0 && isSpace(line[len(line)-1]) {
		line = line[:len(line)-1]
	}
	if extension := bytes.IndexByte(line, ';'); extension >= 0 {
		line = line[:extension]
	}
	size, ok := parseHex(line)
	if !ok {
		return errChunkSize
	}
	c.left = size
	// Each chunk may have 16 bytes of overhead, and 2 more for each byte of its data.
	c.overhead = max(c.overhead-16-2*int64(size), 0)
	if c.overhead > maxOverhead {
		return errChunkOverhead
	}
	return nil
}

// maxChunk is the maximum size of a chunk. It prevents overflow of sums of sizes.
const maxChunk = 1 << 60

func parseHex(digits []byte) (n uint64, ok bool) {
	if len(digits) == 0 || len(digits) > 16 {
		return 0, false
	}
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		n = n<<4 | uint64(c)
	}
	return n, n <= maxChunk
}
