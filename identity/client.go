package identity

import (
	"iter"
	"net/netip"
	"strings"
)

// A form is how a forwarding header names the client.
type form uint8

const (
	formAddress   form = iota // one address
	formList                  // addresses, each proxy adding at the right
	formForwarded             // RFC 7239
)

func formOf(canonical string) form {
	switch canonical {
	case "X-Forwarded-For":
		return formList
	case "Forwarded":
		return formForwarded
	default:
		return formAddress
	}
}

// A place is an address and how it was written, which spares writing it again.
type place struct {
	addr    netip.Addr // neither mapped nor with a zone; the zero Addr if not known
	written string     // addr in canonical form, or empty
}

func placeOf(addr netip.Addr, text string) place {
	if addr.Is4() {
		return place{addr: addr, written: text} // netip reads IPv4 in its canonical form only
	}
	zoneless := addr.WithZone("")
	plain := zoneless.Unmap()
	if plain.Is4() {
		if _, dotted, ok := cutLast(text, ':'); ok && strings.IndexByte(dotted, '.') >= 0 && zoneless == addr {
			return place{addr: plain, written: dotted}
		}
	}
	return place{addr: plain}
}

// findClient finds the client and the nearest proxy, once.
func (a *Attributes) findClient() {
	if !a.learn(knowsClient) {
		return
	}
	peer, _ := readPeer(a.remote)
	a.peer = peer.addr
	a.fromProxy = a.id.config.trusts() && (len(a.id.trusted) == 0 || peer.addr.IsValid() && a.id.trusted.has(peer.addr))
	if a.id.untrusted.due.Load() {
		a.id.untrusted.sample(a)
	}
	client := peer
	if a.fromProxy {
		client = a.id.forwarded(peer, a.lines(a.id.forwards))
	}
	a.client = client.addr
	a.ip = a.id.networkText(client)
}

// readPeer reads the address of a connection, which has a port unless someone has removed it.
func readPeer(text string) (place, bool) {
	if p, ok := readNode(text); ok {
		return p, true
	}
	// A zone in a bracketed address with a port, "[fe80::1%eth0]:80".
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return placeOf(ap.Addr(), ""), true
	}
	return place{}, false
}

// forwarded returns the client that a trusted peer names in the lines of the forwarding header. Where they name none that
// can be believed, it is the nearest address that is known.
func (id *Identifier) forwarded(peer place, lines []string) place {
	switch {
	case len(lines) == 0:
		return peer
	case id.form == formAddress:
		return oneAddress(peer, lines, id.config.MaxForwarded)
	case id.config.Hops > 0:
		return id.countHops(peer, lines)
	default:
		return id.skipTrusted(peer, lines)
	}
}

// oneAddress reads a header that holds one address. Repeated, it must always be the same.
func oneAddress(peer place, lines []string, most int) place {
	if len(lines) > most {
		return peer
	}
	for _, line := range lines[1:] {
		if line != lines[0] {
			return peer
		}
	}
	if client, ok := readNode(trim(lines[0])); ok {
		return client
	}
	return peer
}

// skipTrusted walks to the left over what proxies have added, each the address of who was connected to it. The first that
// is not a trusted proxy is the client: what is further left, he may have made up. A proxy that says what is no address
// hides its client, and stands for him.
func (id *Identifier) skipTrusted(peer place, lines []string) place {
	nearest := peer
	for element := range id.elements(lines) {
		p, ok := id.readElement(element)
		if !ok {
			break
		}
		nearest = p
		if !id.trusted.has(p.addr) {
			break
		}
	}
	return nearest
}

// elements walks the elements of a forwarding header from the right to the left, but for empty ones.
func (id *Identifier) elements(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		elements := backwards{lines: lines, quotes: id.form == formForwarded}
		for range id.config.MaxForwarded {
			element, ok := elements.next()
			if !ok || element != "" && !yield(element) {
				return
			}
		}
	}
}

// countHops returns what the outermost of Hops proxies has added. If there are fewer elements, or that one is no address,
// then the request has not come that way and nothing in it is believed.
func (id *Identifier) countHops(peer place, lines []string) place {
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

func (id *Identifier) readElement(element string) (place, bool) {
	if id.form == formForwarded {
		return readForwarded(element)
	}
	return readNode(element)
}

// readNode reads an address, with or without a port: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1] or
// [2001:db8::1]:80.
func readNode(text string) (place, bool) {
	if text == "" || len(text) > maxNode {
		return place{}, false
	}
	host := text
	if text[0] == '[' {
		end := strings.IndexByte(text, ']')
		if end < 0 || !isPort(text[end+1:]) {
			return place{}, false
		}
		host = text[1:end]
		if strings.IndexByte(host, ':') < 0 {
			return place{}, false
		}
	} else if before, port, ok := cutLast(text, ':'); ok && strings.IndexByte(before, ':') < 0 {
		if !isPort(text[len(text)-len(port)-1:]) {
			return place{}, false
		}
		host = before
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return place{}, false
	}
	return placeOf(addr, host), true
}

// maxNode is the longest address with a zone and a port.
const maxNode = 96

// isPort reports whether the text is nothing, or a colon and a port.
func isPort(text string) bool {
	if text == "" {
		return true
	}
	if text[0] != ':' || len(text) < 2 || len(text) > 6 {
		return false
	}
	for i := 1; i < len(text); i++ {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}

// cutLast cuts at the last separator.
func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
