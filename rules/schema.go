package rules

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns a JSON Schema of rules files, by which editors complete and check them. It knows the form of a file;
// what goes together only Compile knows.
func Schema() []byte { return append([]byte(nil), schema...) }
