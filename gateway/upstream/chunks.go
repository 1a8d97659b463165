package upstream

import (
	"bytes"
	"io"

	"github.com/headgate/headgate/gateway/internal/http1"
)

// chunks takes apart a body in chunks (RFC 9112 section 7.1), up to its trailers.
type chunks struct {
	left  uint64 // of the chunk's data
	tail  bool   // the CRLF after the data comes next
	waste int64  // bytes that are no data, less what is granted for them
}

const (
	// maxChunkLine is how long the line before a chunk may be. Extensions are in it; they are read over.
	maxChunkLine = 4096
	// maxWaste, and what is granted for each chunk and byte below, are those of net/http: one may send byte by byte, but
	// may not hide next to nothing in extensions.
	maxWaste = 16 << 10
)

// next returns data that is at the beginning of b, and how much of b it has used up, that data included. If there is none
// and no error, more is needed. The error is io.EOF after the last chunk.
func (c *chunks) next(b []byte) (data []byte, used int, err error) {
	for {
		if c.left > 0 {
			n := int(min(c.left, uint64(len(b)-used)))
			if n == 0 {
				return nil, used, nil
			}
			c.left -= uint64(n)
			c.tail = c.left == 0
			return b[used : used+n], used + n, nil
		}
		if c.tail {
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
			c.tail = false
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

// begin reads the line before a chunk.
func (c *chunks) begin(line []byte) error {
	end := len(line) - 2
	// A lone CR or LF is where parsers differ, so neither may be in the line nor end it.
	if end < 0 || bytes.IndexByte(line, '\r') != end || end >= maxChunkLine {
		return errChunkLine
	}
	c.waste += int64(len(line))
	line = line[:end]
	for len(line) > 0 && http1.IsSpace(line[len(line)-1]) {
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
	c.waste = max(c.waste-16-2*int64(size), 0)
	if c.waste > maxWaste {
		return errChunkWaste
	}
	return nil
}

// maxChunk keeps all sums of sizes far from the end of their range.
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
