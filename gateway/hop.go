package gateway

import (
	"net/http"
	"net/textproto"
	"strings"
)

// isHop reports whether a header, by its canonical name, is meant for one connection only (RFC 9110 section 7.6.1).
func isHop(canonical string) bool {
	switch canonical {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Http2-Settings":
		return true
	default:
		return false
	}
}

// hops is what the headers for one connection said, once they are gone.
type hops struct {
	upgrade  string // the protocol that the client asks to switch to, if we do that
	trailers bool   // he takes trailers
}

// removeNamed removes the headers that Connection names. It reports whether Upgrade is among them, without which that header
// means nothing.
func removeNamed(h http.Header) (upgrade bool) {
	for _, line := range h["Connection"] {
		for line != "" {
			var option string
			option, line, _ = strings.Cut(line, ",")
			option = strings.Trim(option, " \t")
			switch {
			case option == "", strings.EqualFold(option, "close"), strings.EqualFold(option, "keep-alive"), strings.EqualFold(option, "te"):
			case strings.EqualFold(option, "upgrade"):
				upgrade = true
			default:
				delete(h, textproto.CanonicalMIMEHeaderKey(option))
			}
		}
	}
	return upgrade
}

// isPlainConnection reports whether Connection is missing or names no header.
func isPlainConnection(lines []string) bool {
	switch len(lines) {
	case 0:
		return true
	case 1:
		line := lines[0]
		return line == "keep-alive" || line == "close" || line == "Keep-Alive" || line == "Close"
	default:
		return false
	}
}

// takesTrailers reports whether the header TE says so.
func takesTrailers(lines []string) bool {
	for _, line := range lines {
		for option := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.Trim(option, " \t"), "trailers") {
				return true
			}
		}
	}
	return false
}

// wanted returns the first protocol of the header Upgrade that may be switched to, in lower case.
func wanted(lines, allowed []string) string {
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.Trim(name, " \t")
			for _, known := range allowed {
				if strings.EqualFold(name, known) {
					return known
				}
			}
		}
	}
	return ""
}
