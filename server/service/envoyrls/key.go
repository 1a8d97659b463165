package envoyrls

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/headgate/headgate"
)

// The key of a counter has the domain, the entries and a suffix. The length of each text is in front of it, so that no
// two descriptors have the same key. The keys of rules never begin with a zero byte, so they differ from these keys.
const (
	keyPrefix       = "\x00envoy/"
	hashedKeyPrefix = "\x00envoy#" // followed by a hash of the key, for keys that are too long
)

// appendKey appends the counter key of a descriptor. nodes are the matches of its entries; there are none if the
// request states the limit. multiplier is the number of units in the limit's period.
func appendKey(dst []byte, domain string, entries []entry, nodes []*node, suffix byte, multiplier uint32) []byte {
	start := len(dst)
	dst = append(dst, keyPrefix...)
	dst = appendText(dst, domain)
	for i := range entries {
		dst = appendText(dst, entries[i].key)
		value := entries[i].value
		if i < len(nodes) && nodes[i].sharesCounter {
			value = nodes[i].pattern
		}
		dst = appendText(dst, value)
	}
	dst = append(dst, suffix)
	if multiplier > 1 {
		dst = binary.AppendUvarint(dst, uint64(multiplier))
	}
	if len(dst)-start > headgate.MaxKeyBytes {
		sum := sha256.Sum256(dst[start:])
		dst = append(append(dst[:start], hashedKeyPrefix...), sum[:]...)
	}
	return dst
}

func appendText(dst []byte, text string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}
