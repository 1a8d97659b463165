package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/token"
)

// maxNote is the maximum size of the note of a change in bytes.
const maxNote = 1000

// readQuery reads the query parameters of a call. It refuses unknown ones, because ignoring a misspelt dry_run would
// change rules.
func (r *Route) readQuery(c *call.Call) error {
	query, err := url.ParseQuery(c.R.URL.RawQuery)
	if err != nil {
		return problem.New(http.StatusBadRequest, "The query parameters cannot be read: %v.", err)
	}
	c.Query = query
	for name, values := range query {
		if len(values) > 1 && name != r.repeated {
			return problem.InvalidQuery(name, values[1], "one value")
		}
		if name == "namespace" { // clients send it with every call, even if the route ignores it
			if !control.IsName(values[0]) && (r.scope == oneNamespace || values[0] != token.AllNamespaces) {
				return problem.InvalidQuery(name, values[0], control.NameFormat)
			}
			c.Namespace = values[0]
			continue
		}
		for _, value := range values {
			if err := r.checkParameter(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkParameter checks a query parameter other than namespace.
func (r *Route) checkParameter(name, value string) error {
	switch known := slices.Contains(r.Query, name); {
	case !known && slices.Contains(r.Query, "*"): // an attribute, which may have any value
		return nil
	case !known:
		want := "no parameter"
		if list := r.parameters(); len(list) > 0 {
			want = "one of " + strings.Join(list, ", ")
		}
		return problem.New(http.StatusBadRequest, "?%s is not a parameter of this call: want %s.", name, want)
	case !control.IsText(value):
		return problem.InvalidQuery(name, value, "text in UTF-8 without zero bytes")
	case name == "note" && len(value) > maxNote:
		return problem.InvalidQuery(name, value, "at most 1000 bytes")
	}
	return nil
}

// parameters returns the query parameters of a route.
func (r *Route) parameters() []string {
	if r.scope == oneNamespace {
		return append([]string{"namespace"}, r.Query...)
	}
	return r.Query
}
