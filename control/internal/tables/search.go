package tables

import (
	"encoding/json"
	"strings"
)

// A Search is what to look for. A body is JSON, in which what somebody looks for must not be found as the name of a field: all
// rules have limits.
type Search struct {
	// ID is for ids and Body for bodies, as it is written there. Both are in lower case.
	ID, Body string
	// Names are of fields that contain it, as they are written in bodies. They are to be left out before Body is looked for.
	Names []string
}

// fieldNames are those of rules, clients and overrides, and of attributes that have no name of their own: header.x-plan is what
// somebody has chosen, path is not.
var fieldNames = []string{
	"after", "all", "any", "api_key", "attributes", "bearer", "block", "case", "client", "consistency", "cost", "count_rejected", "description",
	"enabled", "estimate", "expires", "fallback", "for", "header", "host", "id", "ip", "key", "limits", "max", "method", "min", "name",
	"namespace", "not", "note", "on_failure", "on_limit", "overrides", "owner", "partition", "path", "penalty", "priority", "region",
	"response_header", "rule", "rules", "safe", "scope", "split", "status", "trailing_slash", "unlimited", "unregistered", "user", "when",
}

// SearchFor returns how to look for a text.
func SearchFor(text string) Search {
	text = Lower(text)
	var written strings.Builder
	e := json.NewEncoder(&written)
	e.SetEscapeHTML(false) // as bodies are written
	_ = e.Encode(text)     // a text can always be written
	s := Search{ID: text, Body: strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(written.String()), `"`), `"`)}
	for _, name := range fieldNames {
		if strings.Contains(name, text) {
			s.Names = append(s.Names, `"`+name+`":`)
		}
	}
	return s
}
