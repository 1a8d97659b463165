package identity

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
)

// networkText returns the value of the attribute ip: the canonical text of the client's network, or of the address if
// the prefix has all its bits.
func (id *Identifier) networkText(p parsedAddr) string {
	if !p.addr.IsValid() {
		return ""
	}
	width := id.config.IPv6Prefix
	if p.addr.Is4() {
		width = id.config.IPv4Prefix
	}
	if width == p.addr.BitLen() && p.text != "" {
		return p.text
	}
	network, err := p.addr.Prefix(width)
	if err != nil {
		return "" // impossible for a valid Config
	}
	return id.texts.of(network)
}

// textSlots is the number of cached texts.
const textSlots = 4096

// networkTexts caches the texts of networks, so that further requests of a client need no allocation. A network has one
// slot, in which it replaces the one before.
type networkTexts struct {
	slots [textSlots]atomic.Pointer[networkText]
	seed  uint64
}

type networkText struct {
	network netip.Prefix
	text    string
}

func (t *networkTexts) init() { t.seed = rand.Uint64() }

func (t *networkTexts) of(network netip.Prefix) string {
	slot := &t.slots[t.slot(network.Addr())]
	if known := slot.Load(); known != nil && known.network == network {
		return known.text
	}
	text := network.String()
	if network.IsSingleIP() {
		text = network.Addr().String()
	}
	slot.Store(&networkText{network: network, text: text})
	return text
}

func (t *networkTexts) slot(addr netip.Addr) uint64 {
	b := addr.As16()
	high, low := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	h, l := bits.Mul64(high^t.seed, 0x9e3779b97f4a7c15)
	h2, l2 := bits.Mul64(low^h^l, 0xd6e8feb86659fd93)
	return (h2 ^ l2) % textSlots
}
