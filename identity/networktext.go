package identity

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
)

// networkText returns the value of the attribute ip: the canonical text of the client's network, or of his address if that
// is all of it.
func (id *Identifier) networkText(p place) string {
	if !p.addr.IsValid() {
		return ""
	}
	width := id.config.IPv6Prefix
	if p.addr.Is4() {
		width = id.config.IPv4Prefix
	}
	if width == p.addr.BitLen() && p.written != "" {
		return p.written
	}
	network, err := p.addr.Prefix(width)
	if err != nil {
		return "" // not with the widths that Config.check lets pass
	}
	return id.texts.of(network)
}

// textSlots is how many texts are remembered.
const textSlots = 4096

// networkTexts remembers the texts of networks that asked lately, so that a client who comes again costs no allocation. A
// network has one slot, and takes it from who had it before.
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
