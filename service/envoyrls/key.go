package envoyrls

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/headgate/headgate"
)

// A counter's key is the domain and the entries, every text with its length in front, and what is counted: no two
// descriptors can have the same, whatever their texts are. Rules have no key that begins with a zero.
const (
	keyBegin  = "\x00envoy/"
	longBegin = "\x00envoy#" // and a hash of the key, if that is too long
)

// appendKey appends the key of a descriptor's counter. nodes are where its entries led, none if the limit is the request's
// own. multiplier tells limits of several units apart.
func appendKey(dst []byte, domain string, entries []entry, nodes []*node, suffix byte, multiplier uint32) []byte {
	at := len(dst)
	dst = append(dst, keyBegin...)
	dst = appendText(dst, domain)
	for i := range entries {
		dst = appendText(dst, entries[i].key)
		value := entries[i].value
		if i < len(nodes) && nodes[i].shared {
			value = nodes[i].pattern
		}
		dst = appendText(dst, value)
	}
	dst = append(dst, suffix)
	if multiplier > 1 {
		dst = binary.AppendUvarint(dst, uint64(multiplier))
	}
	if len(dst)-at > headgate.MaxKeyBytes {
		sum := sha256.Sum256(dst[at:])
		dst = append(append(dst[:at], longBegin...), sum[:]...)
	}
	return dst
}

func appendText(dst []byte, text string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}
