// Package file reads and writes rules files in YAML and JSON. It reports every problem with its position.
//
//	doc, err := file.Parse("rules.yaml", data)
//	if err != nil {
//		return nil, err // rules.yaml:6:14: rules[0].limits[0]: Count "ten": want a whole number …
//	}
//	return doc.Compile()
//
// A file is a mapping with the lists rules and clients; package rules describes the language. The brackets of a list
// with one element may be omitted. A limit is a text, or a mapping with its name. A condition is a mapping:
//
//	rules:
//	  - id: search-per-user
//	    when: { host: api.example.com, path: /search/**, method: [GET, HEAD] }
//	    key: user
//	    limits: [10/s burst 20, { name: hourly, limit: 1000/h sliding-window }]
//	    on_limit: delay 2s
//
// Rules can share common parts with YAML's anchors, aliases and merge keys (<<).
//
// An error lists all problems. Each has its file, line and column, an excerpt of the line, and a description of a valid
// value. Unknown and duplicate fields are refused.
package file
