// Package file reads and writes rules files: YAML and JSON, strictly, with the position of every problem.
//
//	doc, err := file.Parse("rules.yaml", data)
//	if err != nil {
//		return nil, err // rules.yaml:6:14: rules[0].limits[0]: Count "ten": want a whole number …
//	}
//	return doc.Compile()
//
// A file is a mapping of rules and clients; package rules describes the language. A list of one may be written without
// brackets, a limit as a short text, and a condition as a mapping:
//
//	rules:
//	  - id: search-per-user
//	    when: { host: api.example.com, path: /search/**, method: [GET, HEAD] }
//	    key: user
//	    limits: [10/s burst 20, { name: hourly, limit: 1000/h sliding-window }]
//	    on_limit: delay 2s
//
// YAML's anchors, aliases and merge keys (<<) can be used for the common parts of rules.
//
// An error lists all problems, each with file, line and column, the line itself and a description of a valid value.
// Unknown and duplicate fields are refused.
package file
