package testfile

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
)

// A testRequest is a request of a test file. Rules see it like a real request, except that bearer is the value in the
// file instead of its hash, which the author does not know.
type testRequest struct {
	identity.Attributes
	bearer string
}

var _ rules.Addressed = (*testRequest)(nil)

// newTestRequest returns a request with normalized attributes. The error is a *headgate.InputError.
func newTestRequest(id *identity.Identifier, attributes rules.Attributes) (*testRequest, error) {
	request := &testRequest{}
	values := identity.Values{Attributes: make(map[string]string, len(attributes))}
	for a, value := range attributes {
		if a.Kind == headgate.AttrBearer {
			request.bearer = value
			continue
		}
		values.Attributes[a.String()] = value
	}
	return request, id.ReadValues(values, &request.Attributes)
}

// Get returns the value of an attribute.
func (r *testRequest) Get(a headgate.Attribute) (string, bool) {
	if a.Kind == headgate.AttrBearer {
		return r.bearer, r.bearer != ""
	}
	return r.Attributes.Get(a)
}
