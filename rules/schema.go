package rules

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns a JSON Schema of rules files, with which editors complete and check them. It describes only the
// syntax; Validate also checks which settings can be combined.
func Schema() []byte { return append([]byte(nil), schema...) }
