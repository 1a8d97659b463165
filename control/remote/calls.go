package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/headgate/headgate/control"
)

// A Collection is where objects of one kind are.
type Collection string

// The collections that are read and changed in the same way.
const (
	Rules     Collection = "rules"
	Clients   Collection = "clients"
	Overrides Collection = "overrides"
)

// one is the field that holds an object of the collection.
func (c Collection) one() string { return string(c[:len(c)-1]) }

func (c Collection) path(id string) string { return "/v1/" + string(c) + "/" + url.PathEscape(id) }

// An Object is a rule, a client or an override as the service has it.
type Object struct {
	Body     json.RawMessage // as in a rules file, JSON
	Revision int64
	Created  time.Time
	Updated  time.Time
	By       string
}

// A Page is a part of a list. Next is the cursor of the one after it, empty if there is none.
type Page struct {
	Objects  []Object
	Next     string
	Total    int
	Revision int64
}

// A Query says which part of a list is wanted.
type Query struct {
	Search string // what an object contains
	Cursor string
	Limit  int // 0 for what the service thinks right
}

func (q *Query) values() url.Values {
	v := url.Values{}
	if q.Search != "" {
		v.Set("q", q.Search)
	}
	if q.Cursor != "" {
		v.Set("cursor", q.Cursor)
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

// List returns a page of objects, in the order of their ids.
func (c *Client) List(ctx context.Context, of Collection, q Query) (*Page, error) {
	var answer map[string]json.RawMessage
	if _, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/" + string(of), query: q.values()}, &answer); err != nil {
		return nil, err
	}
	var list []map[string]json.RawMessage
	page := &Page{}
	for _, field := range []struct {
		name string
		into any
	}{{string(of), &list}, {"next", &page.Next}, {"total", &page.Total}, {"revision", &page.Revision}} {
		if raw := answer[field.name]; raw != nil {
			if err := json.Unmarshal(raw, field.into); err != nil {
				return nil, fmt.Errorf("GET %s/v1/%s: %s: %w", c.name, of, field.name, err)
			}
		}
	}
	for _, item := range list {
		made, err := objectOf(of, item)
		if err != nil {
			return nil, fmt.Errorf("GET %s/v1/%s: %w", c.name, of, err)
		}
		page.Objects = append(page.Objects, *made)
	}
	return page, nil
}

// objectOf reads an object and what is said of it.
func objectOf(of Collection, item map[string]json.RawMessage) (*Object, error) {
	made := &Object{Body: item[of.one()]}
	for _, field := range []struct {
		name string
		into any
	}{{"revision", &made.Revision}, {"created", &made.Created}, {"updated", &made.Updated}, {"by", &made.By}} {
		if raw := item[field.name]; raw != nil {
			if err := json.Unmarshal(raw, field.into); err != nil {
				return nil, fmt.Errorf("%s: %w", field.name, err)
			}
		}
	}
	if made.Body == nil {
		return nil, fmt.Errorf("no %s in the answer", of.one())
	}
	return made, nil
}

// Get returns one object.
func (c *Client) Get(ctx context.Context, of Collection, id string) (*Object, error) {
	var item map[string]json.RawMessage
	if _, err := c.do(ctx, call{method: http.MethodGet, path: of.path(id)}, &item); err != nil {
		return nil, err
	}
	made, err := objectOf(of, item)
	if err != nil {
		return nil, fmt.Errorf("GET %s%s: %w", c.name, of.path(id), err)
	}
	return made, nil
}

// Put makes an object what body says, if it is at the revision base: control.Any if that does not matter, control.Absent if
// there must be none. It returns its new revision.
func (c *Client) Put(ctx context.Context, of Collection, id string, body []byte, base int64) (int64, error) {
	return c.do(ctx, call{
		method: http.MethodPut, path: of.path(id), header: based(base), body: bytes.NewReader(body), media: jsonType,
	}, nil)
}

// Patch changes some fields of an object, by a JSON Merge Patch (RFC 7396). Base is as for Put.
func (c *Client) Patch(ctx context.Context, of Collection, id string, patch []byte, base int64) (int64, error) {
	return c.do(ctx, call{
		method: http.MethodPatch, path: of.path(id), header: based(base), body: bytes.NewReader(patch), media: patchType,
	}, nil)
}

// Delete removes an object. Base is as for Put.
func (c *Client) Delete(ctx context.Context, of Collection, id string, base int64) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: of.path(id), header: based(base)}, nil)
	return err
}

// A Document is a rules file that is sent. Media is application/yaml or application/json.
type Document struct {
	Body  []byte
	Media string
}

// An Applied is what came, or would come, of applying a file.
type Applied struct {
	Revision  int64  `json:"revision"`
	Diff      []Diff `json:"diff"`
	Unchanged int    `json:"unchanged"`
}

// A Diff is one object that differs.
type Diff struct {
	Kind   control.Kind    `json:"kind"`
	ID     string          `json:"id"`
	Action string          `json:"action"` // create, update or delete
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	Text   string          `json:"text,omitempty"` // for people
}

// Apply makes the namespace what a file says. With prune, what the file does not have is deleted; with dryRun nothing is
// changed. Base is the revision that the namespace has to be at, or control.Any.
func (c *Client) Apply(ctx context.Context, file Document, prune, dryRun bool, base int64) (*Applied, error) {
	query := url.Values{}
	if prune {
		query.Set("prune", "true")
	}
	if dryRun {
		query.Set("dry_run", "true")
	}
	what := call{
		method: http.MethodPost, path: "/v1/rules:apply", query: query, body: bytes.NewReader(file.Body), media: file.Media,
	}
	if base != control.Any {
		what.header = http.Header{"If-Match": {etag(base)}}
	}
	made := &Applied{}
	if _, err := c.do(ctx, what, made); err != nil {
		return nil, err
	}
	return made, nil
}

// Validate says what is wrong with a rules file, nil if nothing is.
func (c *Client) Validate(ctx context.Context, file Document) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/validate", body: bytes.NewReader(file.Body), media: file.Media}, nil)
	return err
}

// Rollback makes the namespace's rules what they were at a revision, and its clients and overrides too with all.
func (c *Client) Rollback(ctx context.Context, revision int64, all bool) (*Applied, error) {
	query := url.Values{}
	if all {
		query.Set("all", "true")
	}
	made := &Applied{}
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: "/v1/revisions/" + strconv.FormatInt(revision, 10) + ":rollback", query: query,
	}, made)
	if err != nil {
		return nil, err
	}
	return made, nil
}

// A Beat is what the service answers to a heartbeat.
type Beat struct {
	// Revision is the latest that the node could have.
	Revision int64 `json:"revision"`
	// IntervalMS is when to come again.
	IntervalMS int64 `json:"interval_ms"`
}

// Heartbeat says how a node is.
func (c *Client) Heartbeat(ctx context.Context, n control.Node) (Beat, error) {
	var beat Beat
	body, err := json.Marshal(n)
	if err != nil {
		return beat, fmt.Errorf("heartbeat: %w", err)
	}
	_, err = c.do(ctx, call{
		method: http.MethodPut, path: "/v1/nodes/" + url.PathEscape(n.ID), body: bytes.NewReader(body), media: jsonType,
	}, &beat)
	return beat, err
}

// Leave says that a node stops, so that it is shown no longer.
func (c *Client) Leave(ctx context.Context, n control.Node) error {
	_, err := c.do(ctx, call{
		method: http.MethodDelete, path: "/v1/nodes/" + url.PathEscape(n.ID), query: url.Values{"started": {n.Started.Format(time.RFC3339Nano)}},
	}, nil)
	return err
}

// Nodes returns what the nodes of the namespace have said of themselves.
func (c *Client) Nodes(ctx context.Context) ([]control.Node, error) {
	var answer struct {
		Nodes []control.Node `json:"nodes"`
	}
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/nodes"}, &answer)
	return answer.Nodes, err
}

// Backup writes all that the service keeps to w. Others go on meanwhile.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := time.AfterFunc(c.config.Timeout, func() { cancel(errSilent) })
	defer patience.Stop()
	answer, err := c.send(ctx, call{method: http.MethodGet, path: "/v1/backup"}) //nolint:bodyclose // body.close does
	if err != nil {
		return silentOr(ctx, err)
	}
	body := &patientBody{from: answer.Body, patience: patience, timeout: c.config.Timeout, ctx: ctx}
	_, err = io.Copy(w, body)
	if closed := body.close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// Restored is what the service answers to a restore.
type Restored struct {
	Revision int64 `json:"revision"`
	// Token is one that may do everything, made because none of those in the backup may; empty if one may.
	Token string `json:"token"`
}

// Restore takes what Backup wrote into a service in which nobody has made anything yet, or, with replace, in place of all that
// there is. It ends by its context alone.
func (c *Client) Restore(ctx context.Context, r io.Reader, replace bool) (Restored, error) {
	var made Restored
	query := url.Values{}
	if replace {
		query.Set("replace", "true")
	}
	answer, err := c.send(ctx, call{method: http.MethodPost, path: "/v1/restore", query: query, body: r, media: "application/octet-stream"})
	if err != nil {
		return made, err
	}
	defer discard(answer)
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxProblem)).Decode(&made); err != nil {
		return made, fmt.Errorf("restore: %w", err)
	}
	return made, nil
}
