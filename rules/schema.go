package rules

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns a JSON Schema of rules files for completion and checks in editors. It describes the syntax; only
// Compile checks which settings can be combined.
func Schema() []byte { return append([]byte(nil), schema...) }
