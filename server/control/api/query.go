package api

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/token"
)

// maxNote is the maximum size of the note of a change in bytes.
const maxNote = 1000

// readQuery reads the query parameters. It refuses unknown ones: a misspelt dry_run must not change anything.
func (c *call) readQuery() error {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return problem.New(http.StatusBadRequest, "The parameters of the address cannot be read: %v.", err)
	}
	c.query = query
	for name, values := range query {
		if len(values) > 1 {
			return problem.InvalidQuery(name, values[1], "one value")
		}
		if name == "namespace" { // clients send it with every call, even if the route has no namespace
			if !control.IsName(values[0]) && (c.route.scope == oneNamespace || values[0] != token.AllNamespaces) {
				return problem.InvalidQuery(name, values[0], control.NameFormat)
			}
			c.namespace = values[0]
			continue
		}
		if err := c.route.checkParameter(name, values[0]); err != nil {
			return err
		}
	}
	return nil
}

// checkParameter checks a query parameter besides namespace.
func (r *Route) checkParameter(name, value string) error {
	switch known := slices.Contains(r.Query, name); {
	case !known && slices.Contains(r.Query, "*"): // an attribute: any value is valid, and it is not stored
		return nil
	case !known:
		want := "no parameter"
		if list := r.parameters(); len(list) > 0 {
			want = "one of " + strings.Join(list, ", ")
		}
		return problem.New(http.StatusBadRequest, "?%s is not a parameter of this: want %s.", name, want)
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

// flag reads a boolean parameter. One without a value is true.
func (c *call) flag(name string) (bool, error) {
	if !c.query.Has(name) {
		return false, nil
	}
	switch v := c.query.Get(name); v {
	case "", "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	default:
		return false, problem.InvalidQuery(name, v, "true or false")
	}
}

// isDryRun reports whether the call asks for a dry run.
func (c *call) isDryRun() bool {
	dry, err := c.flag("dry_run")
	return err == nil && dry
}

// terms reads the terms of a change of many objects.
func (c *call) terms() (t edit.Terms, err error) {
	if t.DryRun, err = c.flag("dry_run"); err != nil {
		return t, err
	}
	t.Match, err = c.condition("If-Match")
	return t, err
}

// number reads an integer parameter.
func (c *call) number(name string, defaultValue, minimum, maximum int64) (int64, error) {
	text := c.query.Get(name)
	if text == "" {
		return defaultValue, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < minimum || n > maximum {
		want := strconv.FormatInt(minimum, 10) + " to " + strconv.FormatInt(maximum, 10)
		return 0, problem.InvalidQuery(name, text, want)
	}
	return n, nil
}

// newCursor returns the cursor of the page after an ID. Callers send it back unchanged.
func newCursor(last string) string {
	return base64.RawURLEncoding.EncodeToString([]byte("v1 " + last))
}

const wantCursor = "the value of next in the previous page"

// cursor reads the cursor of a call, and returns the last ID of the page before it. It is empty for the first page.
func (c *call) cursor() (string, error) {
	text := c.query.Get("cursor")
	if text == "" {
		return "", nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	last, ok := strings.CutPrefix(string(data), "v1 ")
	if err != nil || !ok || last == "" || len(last) > control.MaxID || !control.IsText(last) {
		return "", problem.InvalidQuery("cursor", text, wantCursor)
	}
	return last, nil
}

// revisionCursor reads a cursor that is a revision, 0 for the first page.
func (c *call) revisionCursor() (int64, error) {
	last, err := c.cursor()
	if err != nil || last == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(last, 10, 64)
	if err != nil || n < 1 {
		return 0, problem.InvalidQuery("cursor", c.query.Get("cursor"), wantCursor)
	}
	return n, nil
}

// page reads the parameters of a page: the last ID of the page before it, and the number of objects.
func (c *call) page() (after string, limit int, err error) {
	n, err := c.number("limit", 100, 1, 1000)
	if err != nil {
		return "", 0, err
	}
	after, err = c.cursor()
	return after, int(n), err
}

// objectQuery returns the query of the page that the call asks for, and the page's limit. The query returns one object
// more if there is another page.
func (c *call) objectQuery(kind control.Kind) (q control.Query, limit int, err error) {
	after, limit, err := c.page()
	q = control.Query{Namespace: c.namespace, Kind: kind, Limit: limit + 1}
	if after != "" {
		q.AfterNamespace, q.AfterID = c.namespace, after
	}
	return q, limit, err
}

// etag returns the entity tag of a revision.
func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// condition reads the revisions of If-Match or If-None-Match.
func (c *call) condition(header string) (edit.Condition, error) {
	tags, isAny, err := c.entityTags(header)
	condition := edit.Condition{Given: len(tags) > 0 || isAny, Any: isAny}
	for _, tag := range tags {
		if n, err := strconv.ParseInt(tag, 10, 64); err == nil && n > 0 { // other tags match nothing here
			condition.Revisions = append(condition.Revisions, n)
		}
	}
	return condition, err
}

// entityTags returns the entity tags of If-Match or If-None-Match without quotes, and whether it contains "*".
func (c *call) entityTags(header string) (tags []string, isAny bool, err error) {
	values := c.r.Header.Values(header)
	if len(values) == 0 {
		return nil, false, nil
	}
	for text := range strings.SplitSeq(strings.Join(values, ","), ",") {
		text = strings.TrimSpace(text)
		if text == "*" {
			isAny = true
			continue
		}
		if header == "If-None-Match" {
			text = strings.TrimPrefix(text, "W/")
		}
		tag, ok := strings.CutPrefix(text, `"`)
		if ok {
			tag, ok = strings.CutSuffix(tag, `"`)
		}
		if !ok {
			return nil, false, problem.New(http.StatusBadRequest,
				"%s: %s: want the ETag of a response, such as \"42\", or *.", header, rules.Quote(text))
		}
		tags = append(tags, tag)
	}
	return tags, isAny, nil
}
