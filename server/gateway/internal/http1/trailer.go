package http1

import "strings"

// notInTrailer are the fields that must not be in a trailer (RFC 9110 section 6.5.1), because they concern framing,
// routing, authentication or the meaning of the header. They are not forwarded, because some services merge trailers
// into the header.
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

// FramesMessage reports whether a field, given by its canonical name, determines where a message ends. Such a field
// cannot come after the body.
func FramesMessage(canonical string) bool {
	return canonical == "Transfer-Encoding" || canonical == "Content-Length" || canonical == "Trailer"
}

// ReplacesHeader reports whether a field of a request's trailer, given by its canonical name, could change how a
// service reads the request or its body if the service merges trailers into the header. It is used for requests of
// all protocols, and rejects fewer fields than MayTrail.
func ReplacesHeader(canonical string) bool {
	switch canonical {
	case "Content-Length", "Content-Type", "Content-Encoding", "Content-Range", "Set-Cookie", "Cache-Control", "Expect",
		"Max-Forwards", "Range", "Via":
		return true
	default:
		return strings.HasPrefix(canonical, "X-Real-")
	}
}
