package resp

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
)

// A subject contains the attributes of the client in the key argument of HG.TAKE. Subjects are used again for other
// commands.
type subject struct {
	attributes   identity.Attributes
	values       identity.Values
	attributeMap map[string]string
}

// read parses the key argument of a command for the rule with this ID, and sets s.attributes. If the key begins with
// the name of an attribute and "=", it is a list such as user=alice,path=/login. Otherwise it is the value of the
// rule's only key attribute. In a list, a backslash escapes a comma or backslash.
func (s *subject) read(server *Server, ruleID, key string) error {
	rule := server.config.Engine.Rules().Rule(ruleID)
	if rule == nil {
		return fmt.Errorf("%w: %s", engine.ErrNoRule, rules.Quote(ruleID))
	}
	clear(s.attributeMap)
	s.values = identity.Values{}
	var err error
	switch name, _, ok := strings.Cut(key, "="); {
	case ok && isAttribute(name):
		err = s.readList(key)
	case len(rule.Key) == 1 && key == "":
		err = invalidKey(key, "a value of "+rule.Key[0].String())
	case len(rule.Key) == 1:
		s.set(rule.Key[0], key)
	case len(rule.Key) > 1:
		err = invalidKey(key, "attribute=value for each of "+attributeNames(rule.Key))
	}
	if err != nil {
		return err
	}
	return server.config.Identity.ReadValues(s.values, &s.attributes)
}

func isAttribute(name string) bool {
	_, err := headgate.ParseAttribute(name)
	return err == nil
}

// set sets one attribute. Only rare attributes need the map.
func (s *subject) set(a headgate.Attribute, value string) {
	switch a.Kind {
	case headgate.AttrIP:
		s.values.IP = value
	case headgate.AttrUser:
		s.values.User = value
	case headgate.AttrAPIKey:
		s.values.APIKey = value
	default:
		s.setNamed(a.String(), value)
	}
}

func (s *subject) setNamed(name, value string) {
	if s.attributeMap == nil {
		s.attributeMap = map[string]string{}
	}
	s.attributeMap[name] = value
	s.values.Attributes = s.attributeMap
}

func (s *subject) readList(list string) error {
	for rest := list; rest != ""; {
		var element string
		element, rest = nextElement(rest)
		name, value, ok := strings.Cut(element, "=")
		if !ok {
			return invalidKey(element, "attribute=value, with a backslash before a comma that is part of a value")
		}
		if len(s.attributeMap) == identity.MaxAttributes {
			return invalidKey(list, fmt.Sprintf("at most %d attributes", identity.MaxAttributes))
		}
		if _, duplicate := s.attributeMap[name]; duplicate {
			return invalidKey(name, "each attribute once")
		}
		s.setNamed(name, unescapeValue(value))
	}
	return nil
}

// nextElement splits a list after its first element.
func nextElement(list string) (element, rest string) {
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case '\\':
			i++
		case ',':
			return list[:i], list[i+1:]
		}
	}
	return list, ""
}

// unescapeValue removes the backslashes that escape commas and backslashes.
func unescapeValue(value string) string {
	if !strings.Contains(value, `\`) {
		return value
	}
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' && i+1 < len(value) && (value[i+1] == ',' || value[i+1] == '\\') {
			i++
		}
		b.WriteByte(value[i])
	}
	return b.String()
}

func attributeNames(attributes []headgate.Attribute) string {
	list := make([]string, len(attributes))
	for i, a := range attributes {
		list[i] = a.String()
	}
	return strings.Join(list, ", ")
}

func invalidKey(value, want string) error {
	return &headgate.InputError{Err: headgate.ErrInvalidCheck, Field: "key", Value: rules.Quote(value), Want: want}
}
