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
	singleAddress forwardingFormat = iota
	addressList                    // each proxy adds an address at the right
	forwardedList                  // RFC 7239
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

// A parsedAddr is an address and, to avoid formatting it again, its text.
type parsedAddr struct {
	addr netip.Addr // without zone and not mapped to IPv6; the zero Addr if it is unknown
	text string     // addr in canonical form, or empty
}

// newParsedAddr removes the zone, and the mapping of IPv4 to IPv6. It keeps the text only if that is certainly
// canonical: for IPv4, and for the dotted part of ::ffff:192.0.2.1.
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

// findClient finds the client and the peer, once per request.
func (a *Attributes) findClient() {
	if !a.begin(lookupClient) {
		return
	}
	peer, _ := readPeer(a.remote)
	a.peer = peer.addr
	a.fromProxy = a.id.IsProxy(peer.addr)
	if a.id.untrusted.due.Load() {
		a.id.untrusted.sample(a)
	}
	client := peer
	if a.fromProxy {
		client = a.id.forwarded(peer, a.lines(a.id.forwardingHeader))
	}
	a.client = client.addr
	a.ip = a.id.networkText(client)
}

// readPeer parses the address of a connection, with or without a port.
func readPeer(text string) (parsedAddr, bool) {
	if p, ok := readNode(text); ok {
		return p, true
	}
	// A zone in a bracketed address with a port, "[fe80::1%eth0]:80".
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return newParsedAddr(ap.Addr(), ""), true
	}
	return parsedAddr{}, false
}

// forwarded returns the client that the lines of the forwarding header name. peer is a trusted proxy. If the header is
// missing or invalid, forwarded returns the last address that a trusted proxy has reported, or the peer's.
func (id *Identifier) forwarded(peer parsedAddr, lines []string) parsedAddr {
	switch {
	case len(lines) == 0:
		return peer
	case id.format == singleAddress:
		return oneAddress(peer, lines, id.config.MaxForwarded)
	case id.config.Hops > 0:
		return id.countHops(peer, lines)
	default:
		return id.skipTrusted(peer, lines)
	}
}

// oneAddress reads a header with one address. Several lines must be equal.
func oneAddress(peer parsedAddr, lines []string, limit int) parsedAddr {
	if len(lines) > limit || !allEqual(lines) {
		return peer
	}
	if client, ok := readNode(trim(lines[0])); ok {
		return client
	}
	return peer
}

// allEqual reports whether the lines of a header, at least one, are equal.
func allEqual(lines []string) bool {
	return !slices.ContainsFunc(lines[1:], func(line string) bool { return line != lines[0] })
}

// skipTrusted returns the client in a list of addresses. Each proxy has appended the address of its peer, so
// skipTrusted reads them from right to left. The first address that is not a trusted proxy is the client. The client
// may have invented everything to the left of its address. If an element is not an address, the proxy that added it
// counts as the client.
func (id *Identifier) skipTrusted(peer parsedAddr, lines []string) parsedAddr {
	nearest := peer
	for element := range id.elements(lines) {
		p, ok := id.readElement(element)
		if !ok {
			break
		}
		nearest = p
		if !id.trusted.contains(p.addr) {
			break
		}
	}
	return nearest
}

// elements returns the elements of a forwarding header from right to left. It skips empty elements and stops
// after Config.MaxForwarded.
func (id *Identifier) elements(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		elements := reverseElements{lines: lines, quotes: id.format == forwardedList}
		for range id.config.MaxForwarded {
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

// countHops returns the address that the outermost of Hops proxies has added. If there are fewer elements, or that
// element is not an address, the request has not passed through these proxies, and the header is ignored.
func (id *Identifier) countHops(peer parsedAddr, lines []string) parsedAddr {
	hop := 0
	for element := range id.elements(lines) {
		if hop++; hop < id.config.Hops {
			continue
		}
		if p, ok := id.readElement(element); ok {
			return p
		}
		break
	}
	return peer
}

func (id *Identifier) readElement(element string) (parsedAddr, bool) {
	if id.format == forwardedList {
		return readForwarded(element)
	}
	return readNode(element)
}

// readNode parses a node in the sense of RFC 7239, an address with or without a port: 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1] or [2001:db8::1]:80.
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

// isPort reports whether the text is empty, or a colon and a port.
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
