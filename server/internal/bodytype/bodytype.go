// Package bodytype interprets Content-Type headers, in the same way for all listeners that accept JSON or YAML.
package bodytype

import (
	"mime"
	"strings"
)

// A Type is the format of a body.
type Type uint8

// The types of a body.
const (
	// Unknown is a type that no listener accepts.
	Unknown Type = iota
	// Unset means that the caller did not choose a type, so the format must be detected from the body.
	Unset
	JSON
	YAML
	// NDJSON has one JSON object on each line.
	NDJSON
)

// Of returns the type for a Content-Type header. By default, HTTP clients send application/x-www-form-urlencoded (curl
// -d) or text/plain (fetch), so both count as Unset. Web pages of other origins can send these types without a
// preflight request. So a listener must refuse such pages by their origin, not by the type of the body.
func Of(contentType string) Type {
	switch contentType {
	case "application/json":
		return JSON
	case "", "application/x-www-form-urlencoded":
		return Unset
	}
	kind, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
		return Unknown
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		return JSON
	case kind == "application/yaml" || kind == "application/x-yaml" || kind == "text/yaml" ||
		strings.HasSuffix(kind, "+yaml"):
		return YAML
	case kind == "application/x-ndjson" || kind == "application/jsonl":
		return NDJSON
	case kind == "application/x-www-form-urlencoded" || kind == "text/plain":
		return Unset
	default:
		return Unknown
	}
}
