package gateway

import (
	"math/rand/v2"
	"unsafe"
)

// idLength is the length of a created id: 120 bits, 5 in each character.
const idLength = 24

// A requestID has the text of an id together with the slice that a header needs, in one allocation.
type requestID struct {
	lines [1]string
	text  [idLength]byte
}

// newID returns a random id, as the lines of a header. It is not secret.
func newID() []string {
	const digits = "0123456789abcdefghjkmnpqrstvwxyz"
	id := new(requestID)
	first, second := rand.Uint64(), rand.Uint64()
	for i := range idLength / 2 {
		id.text[i], id.text[i+idLength/2] = digits[first&31], digits[second&31]
		first >>= 5
		second >>= 5
	}
	id.lines[0] = unsafe.String(&id.text[0], idLength)
	return id.lines[:]
}

// maxID bounds the length of an id from a proxy.
const maxID = 128

// isValidID reports whether an id from a proxy is safe in logs and headers.
func isValidID(id string) bool {
	if id == "" || len(id) > maxID {
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
