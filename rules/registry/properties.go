package registry

import (
	"strings"
	"unique"

	"github.com/headgate/headgate/rules"
)

// properties holds the properties of a client as one text, sorted by name: "plan=gold\x00tier=2\x00". Clients with the
// same properties share the memory of this text.
type properties string

func newProperties(list []rules.Property) properties {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	for _, p := range list {
		b.WriteString(p.Name + "=" + p.Value + "\x00")
	}
	return properties(unique.Make(b.String()).Value())
}

// get returns the value of a property, and whether there is one.
func (p properties) get(name string) (string, bool) {
	for rest := string(p); rest != ""; {
		var one string
		one, rest, _ = strings.Cut(rest, "\x00")
		if len(one) > len(name) && one[len(name)] == '=' && one[:len(name)] == name {
			return one[len(name)+1:], true
		}
	}
	return "", false
}

// list returns the properties as a list.
func (p properties) list() []rules.Property {
	var list []rules.Property
	for rest := string(p); rest != ""; {
		var one string
		one, rest, _ = strings.Cut(rest, "\x00")
		name, value, _ := strings.Cut(one, "=")
		list = append(list, rules.Property{Name: name, Value: value})
	}
	return list
}
