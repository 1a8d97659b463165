// Package requestid creates and checks the ids of requests.
package requestid

import (
	"math/rand/v2"
	"unsafe"
)

// length is the length of a created id: 120 bits, 5 in each character.
const length = 24

// An id has the text of an id and the value for a header, so that one allocation is enough for both.
type id struct {
	lines [1]string
	text  [length]byte
}

// New returns a random id, as a value in an http.Header. It is not secret: others may be able to guess it.
func New() []string {
	const digits = "0123456789abcdefghjkmnpqrstvwxyz"
	created := new(id)
	first, second := rand.Uint64(), rand.Uint64()
	for i := range length / 2 {
		created.text[i], created.text[i+length/2] = digits[first&31], digits[second&31]
		first >>= 5
		second >>= 5
	}
	created.lines[0] = unsafe.String(&created.text[0], length)
	return created.lines[:]
}

// maxLength is the maximum length of an id from a proxy.
const maxLength = 128

// IsValid reports whether an id from a proxy is safe in logs and headers.
func IsValid(id string) bool {
	if id == "" || len(id) > maxLength {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '_', c == '.', c == ':', c == '/', c == '+', c == '=', c == '@', c == '~':
		default:
			return false
		}
	}
	return true
}
