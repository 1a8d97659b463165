package source

import (
	"strings"
	"testing"
)

// A large file that is refused leaves no large buffer for reuse, which every later release would have to clear.
func TestLargeArenasAreNotReused(t *testing.T) {
	many := strings.Repeat("1,", 1<<16)
	for name, text := range map[string]string{
		"a list that is not read completely": `[` + many + `{"a": 1, "a": 2}]`,
		"a list in a duplicate field":        `{"a": [` + many + `1], "a": 1}`,
		"a long list":                        `[` + many + `1]`,
	} {
		a := new(arena)
		_, _ = readJSON([]byte(text), a)
		a.release()
		if isKept := len(a.nodes) == 0; isKept && cap(a.pendingItems) > maxReused {
			t.Errorf("%s: capacity for %d items is reused", name, cap(a.pendingItems))
		}
	}
}
