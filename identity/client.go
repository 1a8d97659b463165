package identity

import (
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// A forwardingFormat is the format of a forwarding header.
type forwardingFormat uint8

const (
	singleAddress forwardingFormat = iota // one address
	addressList                           // addresses; each proxy appends one
	forwardedList                         // elements of the header Forwarded (RFC 7239); each proxy appends one
)

func formatOf(canonical string) forwardingFormat {
	switch canonical {
	case "X-Forwarded-For":
		return addressList
	case "Forwarded":
		return forwardedList
	default:
		return singleAddress
	}
}

// A parsedAddr is an address together with its text, which saves formatting it again.
type parsedAddr struct {
	addr netip.Addr // without zone and not mapped to IPv6; the zero Addr if it is unknown
	text string     // addr in canonical form, or empty
}

// newParsedAddr removes the zone of an address, and converts an IPv4 address that is mapped to IPv6 to IPv4. It keeps
// the text only if the text is certainly canonical: for IPv4, and for the dotted part of ::ffff:192.0.2.1.
func newParsedAddr(addr netip.Addr, text string) parsedAddr {
	if addr.Is4() {
		return parsedAddr{addr: addr, text: text} // netip parses IPv4 in canonical form only
	}
	zoneless := addr.WithZone("")
	plain := zoneless.Unmap()
	if plain.Is4() {
		if _, dotted, ok := cutLast(text, ':'); ok && strings.IndexByte(dotted, '.') >= 0 && zoneless == addr {
			return parsedAddr{addr: plain, text: dotted}
		}
	}
	return parsedAddr{addr: plain}
}

// findClient finds the addresses of the client and the peer, once per request.
func (a *Attributes) findClient() {
	if !a.firstLookup(lookupClient) {
		return
	}
	peer, _ := readAddr(a.remote)
	a.peer = peer.addr
	a.fromProxy = a.identifier.IsProxy(peer.addr)
	if a.identifier.untrusted.sampleNext.Load() {
		a.identifier.untrusted.sample(a)
	}
	client := peer
	if a.fromProxy {
		client = a.identifier.forwarded(peer, a.lines(a.identifier.forwardingHeader))
	}
	a.client = client.addr
	a.ip = a.identifier.networkText(client)
}

// readAddr parses an address with or without a port. Unlike readNode, it accepts every address of a connection.
func readAddr(text string) (parsedAddr, bool) {
	if p, ok := readNode(text); ok {
		return p, true
	}
	// readNode does not parse a zone in a bracketed address with a port, such as "[fe80::1%eth0]:80".
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return newParsedAddr(ap.Addr(), ""), true
	}
	return parsedAddr{}, false
}

// forwarded returns the address of the client according to the lines of the forwarding header, which the trusted proxy
// peer has sent. If the header is missing or invalid, forwarded returns the known proxy that is nearest to the client.
func (ident *Identifier) forwarded(peer parsedAddr, lines []string) parsedAddr {
	switch {
	case len(lines) == 0:
		return peer
	case ident.format == singleAddress:
		return oneAddress(peer, lines, ident.config.MaxForwarded)
	case ident.config.Hops > 0:
		return ident.countHops(peer, lines)
	default:
		return ident.skipTrusted(peer, lines)
	}
}

// oneAddress returns the client in a header that holds one address. If there are several lines, they must be equal.
func oneAddress(peer parsedAddr, lines []string, limit int) parsedAddr {
	if len(lines) > limit || !allEqual(lines) {
		return peer
	}
	if client, ok := readNode(trimBlanks(lines[0])); ok {
		return client
	}
	return peer
}

// allEqual reports whether the lines of a header are equal. There must be at least one line.
func allEqual(lines []string) bool {
	return !slices.ContainsFunc(lines[1:], func(line string) bool { return line != lines[0] })
}

// skipTrusted returns the client in a list of addresses: the last address that is not a trusted proxy. Each proxy has
// appended the address of its peer, so skipTrusted reads the list from right to left. The client may have invented
// everything to the left of its address. If an element is not an address, the proxy that added it counts as the client.
func (ident *Identifier) skipTrusted(peer parsedAddr, lines []string) parsedAddr {
	nearest := peer
	for element := range ident.elements(lines) {
		p, ok := ident.readElement(element)
		if !ok {
			break
		}
		nearest = p
		if !ident.trusted.contains(p.addr) {
			break
		}
	}
	return nearest
}

// elements returns the elements of a forwarding header from right to left. It skips empty elements, and stops after
// Config.MaxForwarded elements.
func (ident *Identifier) elements(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		elements := reverseElements{lines: lines, quotes: ident.format == forwardedList}
		for range ident.config.MaxForwarded {
			element, ok := elements.next()
			if !ok {
				return
			}
			if element != "" && !yield(element) {
				return
			}
		}
	}
}

// countHops returns the address that the outermost of Config.Hops proxies has added. If there are fewer elements, or
// this element is not an address, the request has not passed through these proxies, and countHops returns the peer.
func (ident *Identifier) countHops(peer parsedAddr, lines []string) parsedAddr {
	hop := 0
	for element := range ident.elements(lines) {
		if hop++; hop < ident.config.Hops {
			continue
		}
		if p, ok := ident.readElement(element); ok {
			return p
		}
		break
	}
	return peer
}

func (ident *Identifier) readElement(element string) (parsedAddr, bool) {
	if ident.format == forwardedList {
		return readForwarded(element)
	}
	return readNode(element)
}

// readNode parses an address with or without a port, which RFC 7239 calls a node: 192.0.2.1, 192.0.2.1:80, 2001:db8::1,
// [2001:db8::1] or [2001:db8::1]:80.
func readNode(text string) (parsedAddr, bool) {
	if text == "" || len(text) > maxNode {
		return parsedAddr{}, false
	}
	host := text
	if text[0] == '[' {
		end := strings.IndexByte(text, ']')
		if end < 0 || !isPort(text[end+1:]) {
			return parsedAddr{}, false
		}
		host = text[1:end]
		if strings.IndexByte(host, ':') < 0 {
			return parsedAddr{}, false
		}
	} else if before, _, ok := cutLast(text, ':'); ok && strings.IndexByte(before, ':') < 0 {
		if !isPort(text[len(before):]) {
			return parsedAddr{}, false
		}
		host = before
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return parsedAddr{}, false
	}
	return newParsedAddr(addr, host), true
}

// maxNode is the maximum length of an address with a zone and a port.
const maxNode = 96

// isPort reports whether the text is empty or consists of a colon and a port.
func isPort(text string) bool {
	return text == "" || len(text) > 1 && text[0] == ':' && isPortOrNone(text[1:])
}

// cutLast cuts at the last separator.
func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
