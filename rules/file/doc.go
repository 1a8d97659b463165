// Package file reads and writes rules files: YAML and JSON, strictly, with the place of everything that is wrong.
//
//	doc, err := file.Parse("rules.yaml", data)
//	if err != nil { ... } // rules.yaml:6:14: rules[0].limits[0]: Count "ten": want a whole number …
//	set, err := doc.Compile()
//
// A file is a mapping of rules and clients; package rules describes the language. Lists of one may be written without
// brackets, limits as they are spoken, and conditions as mappings:
//
//	rules:
//	  - id: search-per-user
//	    when: { host: api.example.com, path: /search/**, method: [GET, HEAD] }
//	    key: user
//	    limits: [10/s burst 20, { name: hourly, limit: 1000/h sliding-window }]
//	    on_limit: delay 2s
//
// Anchors, aliases and merge keys (<<) of YAML can be used for what rules have in common.
//
// An error lists everything that is wrong, each with file, line and column, the line itself and what would be right.
// A field that is not known, or stands twice, is wrong.
package file
