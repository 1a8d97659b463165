package scenario

import "github.com/headgate/headgate/rules/file/source"

// Format returns a scenario as a file. Parse returns the same scenario for this file.
func Format(s *Scenario) []byte {
	n := newCodec().Encode(*s)
	if s.Seed == 0 {
		n.Append("seed", source.Word("0")) // the codec omits zeros, and no seed means defaultSeed
	}
	return source.YAML(n)
}
