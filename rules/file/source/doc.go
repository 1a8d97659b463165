// Package source parses YAML and JSON strictly into nodes with positions, and reports what is invalid.
//
//	file, err := source.Read("settings.yaml", data)   // *Error: not YAML, a key twice, too deep, too large
//	codec := source.NewCodec()
//	source.RegisterScalar(codec, ParseColour, Colour.String)
//	problems := codec.Decode(file, &settings)      // unknown fields, wrong types, invalid values
//	err = file.Error(problems, 0, nil)             // no problems left out, no error to wrap
//	fmt.Println(err)                               // settings.yaml:3:9: colour: "grean": want red or green
//
// A codec converts nodes to values and back by struct tags such as `field:"name"`. Other types are registered with
// [RegisterScalar] if they are written as one scalar, and with [RegisterNode] otherwise.
//
// Parsing takes memory and time in proportion to the text: its size, its depth and the expansion of aliases are
// bounded.
package source
