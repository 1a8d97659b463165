package httplimit

import (
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
)

// subject returns the attributes of a request: those of its client, and those of Config.Attributes.
func (l *limiter) subject(r *http.Request, who *identity.Attributes) rules.Subject {
	if l.Attributes == nil {
		return who
	}
	if own := l.Attributes(r); len(own) > 0 {
		return replacedSubject{who, own}
	}
	return who
}

// A replacedSubject is a subject some of whose attributes are replaced.
type replacedSubject struct {
	*identity.Attributes
	own rules.Attributes
}

// Get returns the value of an attribute.
func (s replacedSubject) Get(a headgate.Attribute) (string, bool) {
	if value, ok := s.own[a]; ok {
		return value, true
	}
	return s.Attributes.Get(a)
}
