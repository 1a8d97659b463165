package http1

import "strings"

// notInTrailer are the fields that a recipient may not take from a trailer (RFC 9110 section 6.5.1): they frame, route,
// authenticate or change what the head says. Some services merge trailers into the header, so these are not forwarded.
var notInTrailer = map[string]bool{
	"Age": true, "Authorization": true, "Cache-Control": true, "Content-Encoding": true, "Content-Range": true,
	"Content-Type": true, "Cookie": true, "Date": true, "Expires": true, "Forwarded": true, "If-Match": true,
	"If-Modified-Since": true, "If-None-Match": true, "If-Range": true, "If-Unmodified-Since": true, "Location": true,
	"Max-Forwards": true, "Pragma": true, "Range": true, "Retry-After": true, "Set-Cookie": true, "Vary": true,
	"Via": true, "Warning": true, "Www-Authenticate": true, "X-Forwarded-For": true, "X-Forwarded-Host": true,
	"X-Forwarded-Proto": true, "X-Real-Ip": true,
}

// MayTrail reports whether a field, given by its canonical name, may be forwarded in a trailer.
func MayTrail(canonical string) bool {
	return IsToken(canonical) && !IsReserved(canonical) && !notInTrailer[canonical]
}

// FramesMessage reports whether a field, given by its canonical name, says where a message ends, so that it cannot come
// after the body.
func FramesMessage(canonical string) bool {
	return canonical == "Transfer-Encoding" || canonical == "Content-Length" || canonical == "Trailer"
}

// ReplacesHeader reports whether a service could take a field of a request's trailer, given by its canonical name, for
// one of the header that says how the request or its body is to be read. It is for requests of all protocols, and
// refuses less than MayTrail.
func ReplacesHeader(canonical string) bool {
	switch canonical {
	case "Content-Length", "Content-Type", "Content-Encoding", "Content-Range", "Set-Cookie", "Cache-Control", "Expect",
		"Max-Forwards", "Range", "Via":
		return true
	default:
		return strings.HasPrefix(canonical, "X-Real-")
	}
}
