package tables

import (
	"encoding/json"
	"strings"
)

// A Search is a text to find in objects. Bodies are JSON. The text must not match the names of fields, because all
// rules have a field "limits", for example.
type Search struct {
	// ID is the text to find in IDs, and Body the text to find in bodies, with the escapes of JSON. Both are in lower
	// case.
	ID, Body string
	// Names are the field names that contain the text, as they occur in bodies. They must be removed from a body before
	// the search.
	Names []string
}

// fieldNames are the names of fields and attributes that occur in bodies, except attributes with a name that the user
// chooses, such as "header.x-plan".
var fieldNames = []string{
	"after", "all", "any", "api_key", "attributes", "bearer", "block", "case", "client", "consistency", "cost",
	"count_rejected", "description", "enabled", "estimate", "expires", "fallback", "for", "header", "host",
	"id", "ip", "key", "limits", "max", "method", "min", "name", "namespace", "not", "note", "on_failure",
	"on_limit", "overrides", "owner", "partition", "path", "penalty", "priority", "region", "response_header",
	"rule", "rules", "safe", "scope", "split", "status", "trailing_slash", "unlimited", "unregistered", "user",
	"when",
}

// SearchFor returns the Search for a text.
func SearchFor(text string) Search {
	text = Lower(text)
	var written strings.Builder
	e := json.NewEncoder(&written)
	e.SetEscapeHTML(false) // bodies have no HTML escapes either
	_ = e.Encode(text)     // does not fail for strings
	s := Search{ID: text, Body: strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(written.String()), `"`), `"`)}
	for _, name := range fieldNames {
		if strings.Contains(name, text) {
			s.Names = append(s.Names, `"`+name+`":`)
		}
	}
	return s
}
