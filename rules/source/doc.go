// Package source reads YAML and JSON strictly into nodes that know where they stand, and says what is wrong with them.
//
//	file, err := source.Read("rules.yaml", data)   // *Error: not YAML, a key twice, too deep, too large
//	codec := source.NewCodec()
//	source.Words(codec, ParseColour, Colour.String)
//	problems := codec.Decode(file, &settings)      // unknown fields, wrong types, words that mean nothing
//	err = file.Error(problems, 0, nil)             // settings.yaml:3:9: colour: "grean": want red or green
//
// A codec turns nodes into values and back by the tags of structs: `field:"name"`. What it does not know by itself is
// registered with [Words], for what is written as a word, and [Nodes], for anything else.
//
// Reading takes memory and time in proportion to the text: its size, its depth and what aliases unfold to are bounded.
package source
