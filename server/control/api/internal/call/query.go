package call

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/internal/problem"
)

// Flag reads a boolean parameter. A parameter without a value is true.
func (c *Call) Flag(name string) (bool, error) {
	if !c.Query.Has(name) {
		return false, nil
	}
	switch v := c.Query.Get(name); v {
	case "", "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	default:
		return false, problem.InvalidQuery(name, v, "true or false")
	}
}

// IsDryRun reports whether the call requests a dry run. An invalid dry_run counts as false here, and CommitOptions
// returns an error for it.
func (c *Call) IsDryRun() bool {
	dry, err := c.Flag("dry_run")
	return err == nil && dry
}

// CommitOptions reads dry_run and If-Match of a request that changes several objects.
func (c *Call) CommitOptions() (o edit.CommitOptions, err error) {
	if o.DryRun, err = c.Flag("dry_run"); err != nil {
		return o, err
	}
	o.Match, err = c.Condition("If-Match")
	return o, err
}

// Number reads an integer parameter.
func (c *Call) Number(name string, defaultValue, minimum, maximum int64) (int64, error) {
	text := c.Query.Get(name)
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

// NewCursor returns the cursor of the page that begins after the ID last. Callers send it back unchanged.
func NewCursor(last string) string {
	return base64.RawURLEncoding.EncodeToString([]byte("v1 " + last))
}

const wantCursor = "the value of next in the previous page"

// Cursor reads the cursor of a call. It returns the last ID of the previous page, or "" for the first page.
func (c *Call) Cursor() (string, error) {
	text := c.Query.Get("cursor")
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

// RevisionCursor is like Cursor for pages of revisions. It returns 0 for the first page.
func (c *Call) RevisionCursor() (int64, error) {
	last, err := c.Cursor()
	if err != nil || last == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(last, 10, 64)
	if err != nil || n < 1 {
		return 0, problem.InvalidQuery("cursor", c.Query.Get("cursor"), wantCursor)
	}
	return n, nil
}

// Page reads the parameters of a page. It returns the last ID of the previous page and the maximum number of objects.
func (c *Call) Page() (after string, limit int, err error) {
	n, err := c.Number("limit", 100, 1, 1000)
	if err != nil {
		return "", 0, err
	}
	after, err = c.Cursor()
	return after, int(n), err
}

// ObjectQuery returns the query for the page that the call requests, and the page's limit. The query asks for one more
// object than the limit, to find out whether there is another page.
func (c *Call) ObjectQuery(kind control.Kind) (q control.Query, limit int, err error) {
	after, limit, err := c.Page()
	q = control.Query{Namespace: c.Namespace, Kind: kind, Limit: limit + 1}
	if after != "" {
		q.AfterNamespace, q.AfterID = c.Namespace, after
	}
	return q, limit, err
}

// ETag returns the entity tag of a revision.
func ETag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// Condition reads the revisions of If-Match or If-None-Match.
func (c *Call) Condition(header string) (edit.Condition, error) {
	tags, isAny, err := c.EntityTags(header)
	condition := edit.Condition{Given: len(tags) > 0 || isAny, Any: isAny}
	for _, tag := range tags {
		// The tag of an object is its revision. Any other tag matches no object.
		if n, err := strconv.ParseInt(tag, 10, 64); err == nil && n > 0 {
			condition.Revisions = append(condition.Revisions, n)
		}
	}
	return condition, err
}

// EntityTags returns the entity tags of If-Match or If-None-Match without quotes, and whether it contains "*".
func (c *Call) EntityTags(header string) (tags []string, isAny bool, err error) {
	values := c.R.Header.Values(header)
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
