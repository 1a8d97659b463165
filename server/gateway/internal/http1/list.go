package http1

import (
	"iter"
	"strings"
)

// Elements returns the elements of a comma-separated list, which may be on several lines. It omits empty
// elements.
func Elements(lines ...string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range lines {
			for element := range strings.SplitSeq(line, ",") {
				if element = Trim(element); element != "" && !yield(element) {
					return
				}
			}
		}
	}
}

// HasElement reports whether a list, which may be on several lines, contains a token, in any case.
func HasElement(lines []string, token string) bool {
	for element := range Elements(lines...) {
		if strings.EqualFold(element, token) {
			return true
		}
	}
	return false
}

// AppendElement returns a list, which may be on several lines, with one more element.
func AppendElement(lines []string, element string) string {
	switch {
	case len(lines) == 0:
		return element
	case element == "":
		return strings.Join(lines, ", ")
	case len(lines) == 1 && lines[0] == "":
		return element
	default:
		return strings.Join(lines, ", ") + ", " + element
	}
}
