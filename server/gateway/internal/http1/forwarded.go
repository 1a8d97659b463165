package http1

import "strings"

// ForwardedElement returns an element of the field Forwarded (RFC 7239). An empty peer is unknown; the host must be
// valid.
func ForwardedElement(peer, host, scheme string) string {
	b := make([]byte, 0, 96)
	b = append(b, "for="...)
	switch {
	case peer == "":
		b = append(b, "unknown"...)
	case strings.IndexByte(peer, ':') >= 0:
		b = append(b, `"[`...)
		b = append(b, peer...)
		b = append(b, `]"`...)
	default:
		b = append(b, peer...)
	}
	if host != "" {
		b = append(b, ";host="...)
		if IsToken(host) {
			b = append(b, host...)
		} else { // a valid host has no quotes or backslashes
			b = append(b, '"')
			b = append(b, host...)
			b = append(b, '"')
		}
	}
	b = append(b, ";proto="...)
	b = append(b, scheme...)
	return string(b)
}

// ViaElement returns an element of the field Via, for a message of the given HTTP version.
func ViaElement(major, minor int, name string) string {
	if major >= 2 {
		return string(rune('0'+major%10)) + ".0 " + name
	}
	return "1." + string(rune('0'+minor%10)) + " " + name
}
