package gateway

import (
	"math/rand/v2"
	"unsafe"
)

// idLength is that of the ids that are made here: 120 bits, 5 in each letter.
const idLength = 24

// An idText is the id of a request with room for all that a header needs, so that it is one allocation.
type idText struct {
	lines [1]string
	text  [idLength]byte
}

// newID returns an id by chance. It names a request and protects nothing.
func newID() []string {
	const digits = "0123456789abcdefghjkmnpqrstvwxyz"
	id := new(idText)
	first, second := rand.Uint64(), rand.Uint64()
	for i := range idLength / 2 {
		id.text[i], id.text[i+idLength/2] = digits[first&31], digits[second&31]
		first >>= 5
		second >>= 5
	}
	id.lines[0] = unsafe.String(&id.text[0], idLength)
	return id.lines[:]
}

// maxID is how long an id may be that a proxy has made.
const maxID = 128

// isSane reports whether the id of a proxy can be used: it gets into logs and headers of others.
func isSane(id string) bool {
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
