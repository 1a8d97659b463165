package h2

import (
	"strconv"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// Header blocks are encoded without the dynamic table of HPACK (RFC 7541), and without Huffman codes. So responses can
// be encoded concurrently, and quickly.

const (
	statusName = 8    // index of :status in the static table
	indexed    = 0x80 // begins a field whose name and value are in the table
	literal    = 0x00 // begins a field with a value that is not in the table, and is not added to it
	sizeUpdate = 0x20 // begins a change of the dynamic table's size, here to 0

	nameIndexBits = 4 // number of bits for the name's index in the first byte of a literal field
	lengthBits    = 7 // number of bits for the length in the first byte of a string
)

// indexedStatus has the index in the static table of each status that it contains.
var indexedStatus = map[int]byte{200: 8, 204: 9, 206: 10, 304: 11, 400: 12, 404: 13, 500: 14}

// staticNames has the index in the static table of the field names that responses use, in canonical
// form.
var staticNames = map[string]byte{
	"Accept-Ranges": 18, "Access-Control-Allow-Origin": 20, "Age": 21, "Allow": 22, "Cache-Control": 24,
	"Content-Disposition": 25, "Content-Encoding": 26, "Content-Language": 27, "Content-Length": 28,
	"Content-Location": 29, "Content-Range": 30, "Content-Type": 31, "Date": 33, "Etag": 34, "Expires": 36,
	"Last-Modified": 44, "Link": 45, "Location": 46, "Proxy-Authenticate": 48, "Refresh": 52, "Retry-After": 53,
	"Server": 54, "Set-Cookie": 55, "Strict-Transport-Security": 56, "Vary": 59, "Via": 60, "Www-Authenticate": 61,
}

// appendStatus appends :status.
func appendStatus(dst []byte, status int) []byte {
	if i, ok := indexedStatus[status]; ok {
		return append(dst, indexed|i)
	}
	dst = append(dst, literal|statusName, 3) // 3 digits follow
	return strconv.AppendInt(dst, int64(status), 10)
}

// appendField appends a field. The name is a token. A name that is not in canonical form is not found in the static
// table, and takes more bytes. Control characters in the value, which a client would refuse, become spaces.
func appendField[T string | []byte](dst []byte, name, value T) []byte {
	if i, ok := staticNames[string(name)]; ok {
		dst = appendInt(dst, literal, nameIndexBits, int(i))
	} else {
		dst = appendInt(append(dst, literal), 0, lengthBits, len(name))
		for _, c := range []byte(name) {
			if c >= 'A' && c <= 'Z' {
				c |= 0x20
			}
			dst = append(dst, c)
		}
	}
	dst = appendInt(dst, 0, lengthBits, len(value))
	start := len(dst)
	dst = append(dst, value...)
	if !http1.IsValue(dst[start:]) {
		for i, c := range dst[start:] {
			if c < ' ' && c != '\t' || c == 0x7f {
				dst[start+i] = ' '
			}
		}
	}
	return dst
}

// appendInt appends the integer n with a prefix of the given number of bits (RFC 7541 section 5.1).
// first has the other bits of the first byte.
func appendInt(dst []byte, first byte, bits, n int) []byte {
	limit := 1<<bits - 1
	if n < limit {
		return append(dst, first|byte(n))
	}
	dst = append(dst, first|byte(limit))
	for n -= limit; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}
