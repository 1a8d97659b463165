package file_test

import (
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/match"
)

// packageExample is the example of the package comment.
func packageExample(data []byte) (*match.Set, error) {
	doc, err := file.Parse("rules.yaml", data)
	if err != nil {
		return nil, err // rules.yaml:6:14: rules[0].limits[0]: Count "ten": want a whole number …
	}
	return doc.Compile()
}

var _ = packageExample
