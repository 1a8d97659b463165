package scenario

import "github.com/headgate/headgate/rules/file/source"

// Format returns a scenario as a file. Parse returns the same scenario for this file.
func Format(s *Scenario) []byte { return source.YAML(newCodec().Encode(*s)) }
