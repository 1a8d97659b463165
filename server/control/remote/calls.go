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

	"github.com/headgate/headgate/server/control"
)

// A Collection names the objects of one kind.
type Collection string

// The collections.
const (
	Rules     Collection = "rules"
	Clients   Collection = "clients"
	Overrides Collection = "overrides"
)

// one returns the JSON field of an object of the collection.
func (c Collection) one() string { return string(c[:len(c)-1]) }

func (c Collection) path(id string) string { return "/v1/" + string(c) + "/" + url.PathEscape(id) }

// An Object is a rule, a client or an override of the service.
type Object struct {
	Body     json.RawMessage // as in a rules file, JSON
	Revision int64
	Created  time.Time
	Updated  time.Time
	By       string
}

// A Page is a part of a list. Next is the cursor of the next page, empty if there is none.
type Page struct {
	Objects  []Object
	Next     string
	Total    int
	Revision int64
}

// A Query selects a part of a list.
type Query struct {
	Search string // text that an object contains
	Cursor string
	Limit  int // 0 for the service's default
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

// List returns a page of objects, sorted by id.
func (c *Client) List(ctx context.Context, of Collection, q Query) (*Page, error) {
	var response map[string]json.RawMessage
	if _, err := c.do(ctx, apiCall{method: http.MethodGet, path: "/v1/" + string(of), query: q.values()},
		&response); err != nil {
		return nil, err
	}
	var list []map[string]json.RawMessage
	page := &Page{}
	for _, field := range []struct {
		name string
		into any
	}{{string(of), &list}, {"next", &page.Next}, {"total", &page.Total}, {"revision", &page.Revision}} {
		if raw := response[field.name]; raw != nil {
			if err := json.Unmarshal(raw, field.into); err != nil {
				return nil, fmt.Errorf("GET %s/v1/%s: %s: %w", c.name, of, field.name, err)
			}
		}
	}
	for _, item := range list {
		object, err := objectOf(of, item)
		if err != nil {
			return nil, fmt.Errorf("GET %s/v1/%s: %w", c.name, of, err)
		}
		page.Objects = append(page.Objects, *object)
	}
	return page, nil
}

// objectOf decodes an object and its metadata.
func objectOf(of Collection, item map[string]json.RawMessage) (*Object, error) {
	object := &Object{Body: item[of.one()]}
	for _, field := range []struct {
		name string
		into any
	}{{"revision", &object.Revision}, {"created", &object.Created}, {"updated", &object.Updated}, {"by", &object.By}} {
		if raw := item[field.name]; raw != nil {
			if err := json.Unmarshal(raw, field.into); err != nil {
				return nil, fmt.Errorf("%s: %w", field.name, err)
			}
		}
	}
	if object.Body == nil {
		return nil, fmt.Errorf("no %s in the response", of.one())
	}
	return object, nil
}

// Get returns one object.
func (c *Client) Get(ctx context.Context, of Collection, id string) (*Object, error) {
	var item map[string]json.RawMessage
	if _, err := c.do(ctx, apiCall{method: http.MethodGet, path: of.path(id)}, &item); err != nil {
		return nil, err
	}
	object, err := objectOf(of, item)
	if err != nil {
		return nil, fmt.Errorf("GET %s%s: %w", c.name, of.path(id), err)
	}
	return object, nil
}

// Put writes an object if it is at the revision base: control.Any accepts any, control.Absent none. It returns the new
// revision.
func (c *Client) Put(ctx context.Context, of Collection, id string, body []byte, base int64) (int64, error) {
	return c.do(ctx, apiCall{
		method: http.MethodPut, path: of.path(id), header: condition(base), body: bytes.NewReader(body), media: jsonType,
	}, nil)
}

// Patch changes some fields of an object with a JSON Merge Patch (RFC 7396). base is as for Put.
func (c *Client) Patch(ctx context.Context, of Collection, id string, patch []byte, base int64) (int64, error) {
	return c.do(ctx, apiCall{
		method: http.MethodPatch, path: of.path(id), header: condition(base), body: bytes.NewReader(patch), media: patchType,
	}, nil)
}

// Delete removes an object. base is as for Put.
func (c *Client) Delete(ctx context.Context, of Collection, id string, base int64) error {
	_, err := c.do(ctx, apiCall{method: http.MethodDelete, path: of.path(id), header: condition(base)}, nil)
	return err
}

// A Document is a rules file. Media is application/yaml or application/json.
type Document struct {
	Body  []byte
	Media string
}

// An Applied is the result of applying a file, or of its dry run.
type Applied struct {
	Revision  int64  `json:"revision"`
	Diff      []Diff `json:"diff"`
	Unchanged int    `json:"unchanged"`
}

// A Diff is an object that differs.
type Diff struct {
	Kind   control.Kind    `json:"kind"`
	ID     string          `json:"id"`
	Action string          `json:"action"` // create, update or delete
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	Text   string          `json:"text,omitempty"` // for people
}

// Apply updates the namespace to a file. With prune, objects that are not in the file are deleted; with dryRun nothing
// is changed. base is the required revision of the namespace, or control.Any.
func (c *Client) Apply(ctx context.Context, file Document, prune, dryRun bool, base int64) (*Applied, error) {
	query := url.Values{}
	if prune {
		query.Set("prune", "true")
	}
	if dryRun {
		query.Set("dry_run", "true")
	}
	apply := apiCall{
		method: http.MethodPost, path: "/v1/rules:apply", query: query, body: bytes.NewReader(file.Body), media: file.Media,
	}
	if base != control.Any {
		apply.header = http.Header{"If-Match": {etag(base)}}
	}
	applied := &Applied{}
	if _, err := c.do(ctx, apply, applied); err != nil {
		return nil, err
	}
	return applied, nil
}

// Validate returns what is wrong with a rules file, nil if it is valid.
func (c *Client) Validate(ctx context.Context, file Document) error {
	_, err := c.do(ctx, apiCall{
		method: http.MethodPost, path: "/v1/validate", body: bytes.NewReader(file.Body),
		media: file.Media,
	}, nil)
	return err
}

// Rollback restores the namespace's rules of a revision, and with all also its clients and overrides.
func (c *Client) Rollback(ctx context.Context, revision int64, all bool) (*Applied, error) {
	query := url.Values{}
	if all {
		query.Set("all", "true")
	}
	applied := &Applied{}
	_, err := c.do(ctx, apiCall{
		method: http.MethodPost, path: "/v1/revisions/" + strconv.FormatInt(revision, 10) + ":rollback", query: query,
	}, applied)
	if err != nil {
		return nil, err
	}
	return applied, nil
}

// A HeartbeatResponse is the response to a heartbeat.
type HeartbeatResponse struct {
	// Revision is the latest revision for the node.
	Revision int64 `json:"revision"`
	// IntervalMS is the time until the next heartbeat.
	IntervalMS int64 `json:"interval_ms"`
}

// Heartbeat reports the state of a node.
func (c *Client) Heartbeat(ctx context.Context, n control.Node) (HeartbeatResponse, error) {
	var beat HeartbeatResponse
	body, err := json.Marshal(n)
	if err != nil {
		return beat, fmt.Errorf("heartbeat: %w", err)
	}
	_, err = c.do(ctx, apiCall{
		method: http.MethodPut, path: "/v1/nodes/" + url.PathEscape(n.ID), body: bytes.NewReader(body), media: jsonType,
	}, &beat)
	return beat, err
}

// Leave reports that a node stops, so that it is no longer shown.
func (c *Client) Leave(ctx context.Context, n control.Node) error {
	_, err := c.do(ctx, apiCall{
		method: http.MethodDelete, path: "/v1/nodes/" +
			url.PathEscape(n.ID), query: url.Values{"started": {n.Started.Format(time.RFC3339Nano)}},
	}, nil)
	return err
}

// Nodes returns the nodes of the namespace, as they report themselves.
func (c *Client) Nodes(ctx context.Context) ([]control.Node, error) {
	var response struct {
		Nodes []control.Node `json:"nodes"`
	}
	_, err := c.do(ctx, apiCall{method: http.MethodGet, path: "/v1/nodes"}, &response)
	return response.Nodes, err
}

// Backup writes a backup of the service to w, without blocking it.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(c.config.Timeout, func() { cancel(errTimeout) })
	defer timer.Stop()
	response, err := c.send(ctx, apiCall{method: http.MethodGet, path: "/v1/backup"}) //nolint:bodyclose // body.close does
	if err != nil {
		return timeoutOr(ctx, err)
	}
	body := &timedBody{body: response.Body, timer: timer, timeout: c.config.Timeout, ctx: ctx}
	_, err = io.Copy(w, body)
	if closed := body.close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// Restored is the response to a restore.
type Restored struct {
	Revision int64 `json:"revision"`
	// Token is a new token with all permissions, if no token in the backup has them; otherwise empty.
	Token string `json:"token"`
}

// Restore loads a backup into a service without any changes, or, with replace, in place of everything. Only its
// context bounds it.
func (c *Client) Restore(ctx context.Context, r io.Reader, replace bool) (Restored, error) {
	var restored Restored
	query := url.Values{}
	if replace {
		query.Set("replace", "true")
	}
	response, err := c.send(ctx, apiCall{
		method: http.MethodPost, path: "/v1/restore", query: query, body: r,
		media: "application/octet-stream",
	})
	if err != nil {
		return restored, err
	}
	defer discard(response)
	if err := json.NewDecoder(io.LimitReader(response.Body, maxProblem)).Decode(&restored); err != nil {
		return restored, fmt.Errorf("restore: %w", err)
	}
	return restored, nil
}
