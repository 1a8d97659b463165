// Package source parses YAML and JSON into nodes with positions, converts nodes to values, and reports problems with
// their positions.
//
//	file, err := source.Read("settings.yaml", data)   // *Error: not YAML, a duplicate key, too deep, too large
//	codec := source.NewCodec()
//	source.RegisterScalar(codec, ParseColour, Colour.String)
//	problems := codec.Decode(file, &settings)      // unknown fields, wrong types, invalid values
//	err = file.Error(problems, 0, nil)             // no problems left out, no error to wrap
//	fmt.Println(err)                               // settings.yaml:3:9: colour: "grean": want red or green
//
// A codec converts nodes to values and back by struct tags such as `field:"name"`. Other types are registered with
// [RegisterScalar] if they are written as one scalar, and with [RegisterNode] otherwise.
//
// The memory and time for parsing are proportional to the size of the text, even with aliases. The size, the depth and
// the number of nodes that aliases expand to are bounded.
package source
