package cli

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/rules"
)

// ParseAttributes parses arguments such as user=acme.
func ParseAttributes(args []string) (map[string]string, error) {
	attributes := make(map[string]string, len(args))
	for _, arg := range args {
		name, value, err := CutAttribute(arg)
		if err != nil {
			return nil, err
		}
		if _, duplicate := attributes[name]; duplicate {
			return nil, fmt.Errorf("%s: the attribute is given twice", name)
		}
		attributes[name] = value
	}
	return attributes, nil
}

// CutAttribute splits an argument such as user=acme.
func CutAttribute(arg string) (name, value string, err error) {
	name, value, _ = strings.Cut(arg, "=")
	if name == "" || value == "" {
		return "", "", fmt.Errorf("%s: must be ATTRIBUTE=VALUE, such as user=acme", rules.Quote(arg))
	}
	return name, value, nil
}
