package testfile

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
)

// asked is a request of a test file. Rules see it as they would see the request itself, except that bearer is what the
// file says and not its hash, for nobody knows that.
type asked struct {
	identity.Attributes
	bearer string
}

var _ rules.Addressed = (*asked)(nil)

// subject returns a request with its attributes in their usual form. The error is a *headgate.InputError.
func subject(id *identity.Identifier, request rules.Attributes) (*asked, error) {
	made := &asked{}
	values := identity.Values{Attributes: make(map[string]string, len(request))}
	for a, value := range request {
		if a.Kind == headgate.AttrBearer {
			made.bearer = value
			continue
		}
		values.Attributes[a.String()] = value
	}
	return made, id.ReadValues(values, &made.Attributes)
}

// Get returns the value of an attribute.
func (s *asked) Get(a headgate.Attribute) (string, bool) {
	if a.Kind == headgate.AttrBearer {
		return s.bearer, s.bearer != ""
	}
	return s.Attributes.Get(a)
}
