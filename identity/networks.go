package identity

import (
	"cmp"
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
			return nil, fmt.Errorf("networks %s: one is empty: want a list such as 10.0.0.0/8, 192.0.2.7", quote(text))
		}
		var p netip.Prefix
		if addr, err := netip.ParseAddr(part); err == nil {
			addr = addr.WithZone("").Unmap()
			p = netip.PrefixFrom(addr, addr.BitLen())
		} else if p, err = netip.ParsePrefix(part); err != nil {
			return nil, fmt.Errorf("network %s: want an address or a network such as 10.0.0.0/8", quote(part))
		}
		p, err := unmapNetwork(p)
		if err != nil {
			return nil, err
		}
		networks = append(networks, p)
	}
	return networks, nil
}

// unmapNetwork converts an IPv4 network that is mapped to IPv6 to IPv4. It returns other networks unchanged.
func unmapNetwork(p netip.Prefix) (netip.Prefix, error) {
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
	plain, err := unmapNetwork(p)
	if err != nil {
		return fmt.Errorf("identity: TrustedProxies: %w", err)
	}
	if plain.Bits() == 0 {
		return fmt.Errorf("identity: TrustedProxies: network %v contains all addresses, so any client could choose its own: "+
			"want the networks of the proxies, or Hops if they are not known", p)
	}
	return nil
}

// networks is a set of addresses: sorted networks that do not overlap.
type networks []netip.Prefix

func newNetworks(prefixes []netip.Prefix) networks {
	var all networks
	for _, p := range prefixes {
		if plain, err := unmapNetwork(p); err == nil { // Config.validate has refused all other networks
			all = append(all, plain)
		}
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int { return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits()) })
	outer := all[:0] // networks that are not within another one, which comes before them in all
	for _, p := range all {
		if n := len(outer); n == 0 || !outer[n-1].Contains(p.Addr()) {
			outer = append(outer, p)
		}
	}
	return outer
}

// contains reports whether an address is in the set. addr must have no zone and must not be mapped to IPv6.
func (n networks) contains(addr netip.Addr) bool {
	after, found := slices.BinarySearchFunc(n, addr, func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) })
	return found || after > 0 && n[after-1].Contains(addr)
}
