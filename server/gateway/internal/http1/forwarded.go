package http1

import (
	"strconv"
	"strings"
)

// ForwardedElement returns an element of the field Forwarded (RFC 7239). peer is an IP address, or empty if it is
// unknown. The host must be valid, or empty.
func ForwardedElement(peer, host, scheme string) string {
	switch {
	case peer == "":
		peer = "unknown"
	case strings.Contains(peer, ":"):
		peer = `"[` + peer + `]"`
	}
	if host != "" {
		if !IsToken(host) { // a valid host has no quotes or backslashes
			host = `"` + host + `"`
		}
		host = ";host=" + host
	}
	return "for=" + peer + host + ";proto=" + scheme
}

// ViaElement returns an element of the field Via, for a message of the given HTTP version.
func ViaElement(major, minor int, name string) string {
	return strconv.Itoa(major) + "." + strconv.Itoa(minor) + " " + name
}
