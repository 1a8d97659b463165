package tables

import (
	"encoding/json"
	"strings"
)

// A Search is a text to find in objects. A body is JSON, and the text must not match the name of a field: all rules
// have "limits".
type Search struct {
	// ID is the text for ids and Body the text as written in bodies. Both are in lower case.
	ID, Body string
	// Names are the field names that contain the text, as written in bodies. They must be removed before the search for
	// Body.
	Names []string
}

// fieldNames are the field names of rules, clients and overrides, and the attributes without a user-defined name:
// "path", but not "header.x-plan".
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
	e.SetEscapeHTML(false) // as bodies are written
	_ = e.Encode(text)     // a string can always be encoded
	s := Search{ID: text, Body: strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(written.String()), `"`), `"`)}
	for _, name := range fieldNames {
		if strings.Contains(name, text) {
			s.Names = append(s.Names, `"`+name+`":`)
		}
	}
	return s
}
