package identity

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ParseNetworks parses networks that are separated by commas, such as "10.0.0.0/8, 2001:db8::/32, 192.0.2.7".
func ParseNetworks(text string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			if strings.TrimSpace(text) == "" {
				return nil, nil
			}
			return nil, fmt.Errorf("networks %s: one is empty: want such as 10.0.0.0/8, 192.0.2.7", quote(text))
		}
		var p netip.Prefix
		if addr, err := netip.ParseAddr(part); err == nil {
			addr = addr.WithZone("").Unmap()
			p = netip.PrefixFrom(addr, addr.BitLen())
		} else if p, err = netip.ParsePrefix(part); err != nil {
			return nil, fmt.Errorf("network %s: want an address or a network such as 10.0.0.0/8", quote(part))
		}
		p, err := plainNetwork(p)
		if err != nil {
			return nil, err
		}
		networks = append(networks, p)
	}
	return networks, nil
}

// plainNetwork returns the network in IPv4 if it is one of IPv4 mapped into IPv6.
func plainNetwork(p netip.Prefix) (netip.Prefix, error) {
	switch {
	case !p.IsValid():
		return p, fmt.Errorf("network %v: want an address and its bits, such as 10.0.0.0/8", p)
	case p != p.Masked():
		return p, fmt.Errorf("network %v has bits beyond its prefix: want %v", p, p.Masked())
	case !p.Addr().Is4In6():
		return p, nil
	case p.Bits() < 96:
		return p, fmt.Errorf("network %v: want it in IPv4, or at least 96 bits of it", p)
	default:
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96), nil
	}
}

// checkTrusted returns an error for a network that must not be trusted.
func checkTrusted(p netip.Prefix) error {
	plain, err := plainNetwork(p)
	if err != nil {
		return fmt.Errorf("identity: TrustedProxies: %w", err)
	}
	if plain.Bits() == 0 {
		return fmt.Errorf("identity: TrustedProxies: network %v contains all addresses, so any client could choose its own: "+
			"want the networks of the proxies, or Hops if they are not known", p)
	}
	return nil
}

// networks is a set of addresses: sorted ranges that do not overlap, first those of IPv4.
type networks []addrRange

type addrRange struct{ first, last netip.Addr }

func newNetworks(prefixes []netip.Prefix) networks {
	var all networks
	for _, p := range prefixes {
		plain, err := plainNetwork(p)
		if err != nil {
			continue // Config.validate has refused it
		}
		all = append(all, addrRange{first: plain.Addr(), last: lastOf(plain)})
	}
	slices.SortFunc(all, func(a, b addrRange) int { return a.first.Compare(b.first) })
	merged := all[:0]
	for _, r := range all {
		if n := len(merged); n > 0 && r.first.Compare(merged[n-1].last) <= 0 {
			if merged[n-1].last.Less(r.last) {
				merged[n-1].last = r.last
			}
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// lastOf returns the last address of a network.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(b); bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

// has reports whether an address, without zone and not mapped, is in the set.
func (n networks) has(addr netip.Addr) bool {
	i, _ := slices.BinarySearchFunc(n, addr, func(r addrRange, addr netip.Addr) int { return r.last.Compare(addr) })
	return i < len(n) && !addr.Less(n[i].first)
}
