package identity

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
)

// networkText returns the value of the attribute ip for an address: the canonical text of its network. If the prefix
// includes all bits, this is the text of the address.
func (ident *Identifier) networkText(p parsedAddr) string {
	if !p.addr.IsValid() {
		return ""
	}
	width := ident.config.IPv6Prefix
	if p.addr.Is4() {
		width = ident.config.IPv4Prefix
	}
	if width == p.addr.BitLen() && p.text != "" {
		return p.text
	}
	network, err := p.addr.Prefix(width)
	if err != nil {
		return "" // impossible for a valid Config
	}
	return ident.networkTexts.get(network)
}

// textSlots is the number of cached texts.
const textSlots = 4096

// networkTexts caches the texts of networks, so that further requests of a client need no allocation. The hash of a
// network selects its slot, in which it replaces the previous network.
type networkTexts struct {
	slots [textSlots]atomic.Pointer[networkText]
	seed  maphash.Seed
}

type networkText struct {
	network netip.Prefix
	text    string
}

func (t *networkTexts) get(network netip.Prefix) string {
	slot := &t.slots[t.slot(network.Addr())]
	if cached := slot.Load(); cached != nil && cached.network == network {
		return cached.text
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
	return maphash.Bytes(t.seed, b[:]) % textSlots
}
