package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/edit"
)

// A Collection is the name of a kind of objects in paths.
type Collection string

// The collections.
const (
	Rules     Collection = "rules"
	Clients   Collection = "clients"
	Overrides Collection = "overrides"
)

func (c Collection) path(id string) string { return "/v1/" + string(c) + "/" + url.PathEscape(id) }

// A Query selects a part of a list.
type Query struct {
	Search string // text that an object must contain
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
func (c *Client) List(ctx context.Context, collection Collection, q Query) (*edit.Page, error) {
	page := &edit.Page{}
	request := apiCall{method: http.MethodGet, path: "/v1/" + string(collection), query: q.values()}
	if _, err := c.do(ctx, request, page); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(page.Resources(), func(i edit.Resource) bool { return len(i.Body()) == 0 }) {
		return nil, fmt.Errorf("GET %s%s: %w", c.name, request.path, errNoBody)
	}
	return page, nil
}

var errNoBody = errors.New("a response without an object")

// Get returns one object.
func (c *Client) Get(ctx context.Context, collection Collection, id string) (*edit.Resource, error) {
	found := &edit.Resource{}
	if _, err := c.do(ctx, apiCall{method: http.MethodGet, path: collection.path(id)}, found); err != nil {
		return nil, err
	}
	if len(found.Body()) == 0 {
		return nil, fmt.Errorf("GET %s%s: %w", c.name, collection.path(id), errNoBody)
	}
	return found, nil
}

// Put creates or replaces an object if its revision is base. control.AnyRevision stands for any revision, and
// control.Absent means that the object must not exist. Put returns the new revision.
func (c *Client) Put(ctx context.Context, collection Collection, id string, body []byte, base int64) (int64, error) {
	return c.do(ctx, apiCall{
		method: http.MethodPut, path: collection.path(id), header: condition(base),
		body: bytes.NewReader(body), media: jsonType,
	}, nil)
}

// Delete deletes an object if its revision is base, or control.AnyRevision.
func (c *Client) Delete(ctx context.Context, collection Collection, id string, base int64) error {
	_, err := c.do(ctx, apiCall{method: http.MethodDelete, path: collection.path(id), header: condition(base)}, nil)
	return err
}

// A Document is a rules file. Media is application/yaml or application/json.
type Document struct {
	Body  []byte
	Media string
}

// Apply gives the namespace the rules and clients of a file. If prune is set, objects that are not in the file are
// deleted. If dryRun is set, nothing is changed. base is the required revision of the namespace, or
// control.AnyRevision.
func (c *Client) Apply(ctx context.Context, file Document, prune, dryRun bool, base int64) (*edit.Result, error) {
	apply := apiCall{
		method: http.MethodPost, path: "/v1/rules:apply", query: flags{"prune": prune, "dry_run": dryRun}.values(),
		body: bytes.NewReader(file.Body), media: file.Media,
	}
	if base != control.AnyRevision {
		apply.header = http.Header{"If-Match": {etag(base)}}
	}
	applied := &edit.Result{}
	if _, err := c.do(ctx, apply, applied); err != nil {
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

// Leave reports that a node stops. The service removes it from the list of nodes.
func (c *Client) Leave(ctx context.Context, n control.Node) error {
	_, err := c.do(ctx, apiCall{
		method: http.MethodDelete, path: "/v1/nodes/" + url.PathEscape(n.ID),
		query: url.Values{"started": {n.Started.Format(time.RFC3339Nano)}},
	}, nil)
	return err
}

// Nodes returns the last heartbeats of the nodes of the namespace.
func (c *Client) Nodes(ctx context.Context) ([]control.Node, error) {
	var response struct {
		Nodes []control.Node `json:"nodes"`
	}
	_, err := c.do(ctx, apiCall{method: http.MethodGet, path: "/v1/nodes"}, &response)
	return response.Nodes, err
}

// Backup writes a backup of the database to w. It does not block other calls.
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
	// Token is the secret of a new token with all rights, if no token in the backup has them, otherwise empty.
	Token string `json:"token"`
}

// Restore loads a backup into a service that has no content yet. If replace is set, it replaces all content. Only ctx
// limits its time.
func (c *Client) Restore(ctx context.Context, r io.Reader, replace bool) (restored Restored, err error) {
	err = c.upload(ctx, apiCall{
		path: "/v1/restore", query: flags{"replace": replace}.values(), body: r, media: "application/octet-stream",
	}, &restored)
	return restored, err
}

// Import creates or replaces clients. lines has one client in JSON per line. If prune is set, all other clients are
// deleted. Only ctx limits its time.
func (c *Client) Import(ctx context.Context, lines io.Reader, prune bool) (*edit.Imported, error) {
	imported := &edit.Imported{}
	err := c.upload(ctx, apiCall{
		path: "/v1/clients:import", query: flags{"prune": prune}.values(), body: lines, media: control.SnapshotType,
	}, imported)
	if err != nil {
		return nil, err
	}
	return imported, nil
}

// whatIfTimeout limits a what-if. The service replays requests for up to 20 s, after it has queried the nodes.
const whatIfTimeout = time.Minute

// WhatIf replays requests that the nodes have sampled. request and response are those of POST /v1/whatif.
func (c *Client) WhatIf(ctx context.Context, request, response any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("whatif: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, max(whatIfTimeout, c.config.Timeout))
	defer cancel()
	return c.upload(ctx, apiCall{path: "/v1/whatif", body: bytes.NewReader(body), media: jsonType}, response)
}

// upload posts a body of any size and decodes the response.
func (c *Client) upload(ctx context.Context, request apiCall, out any) error {
	request.method = http.MethodPost
	response, err := c.send(ctx, request)
	if err != nil {
		return err
	}
	defer discard(response)
	if err := json.NewDecoder(io.LimitReader(response.Body, maxProblem)).Decode(out); err != nil {
		return fmt.Errorf("POST %s%s: %w", c.name, request.path, err)
	}
	return nil
}

// flags are boolean query parameters.
type flags map[string]bool

func (f flags) values() url.Values {
	v := url.Values{}
	for name, set := range f {
		if set {
			v.Set(name, "true")
		}
	}
	return v
}
