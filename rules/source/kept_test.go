package source

import (
	"strings"
	"testing"
)

// A large file that is refused leaves nothing large behind, which all that are read later would have to clear.
func TestNothingLargeIsUsedAgain(t *testing.T) {
	many := strings.Repeat("1,", 1<<16)
	for name, text := range map[string]string{
		"a list that is not read to its end": `[` + many + `{"a": 1, "a": 2}]`,
		"a list in a field that is twice":    `{"a": [` + many + `1], "a": 1}`,
		"a long list":                        `[` + many + `1]`,
	} {
		a := new(arena)
		_, _ = readJSON([]byte(text), a)
		a.release()
		if isKept := len(a.nodes) == 0; isKept && cap(a.pendingItems) > mostKept {
			t.Errorf("%s: room for %d items is kept", name, cap(a.pendingItems))
		}
	}
}
