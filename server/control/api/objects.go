package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/internal/secret"
)

// maxSearch is the maximum size of a text to search for, in bytes.
const maxSearch = 256

// plural returns the name of a kind in paths and actions.
func plural(kind control.Kind) string { return string(kind) + "s" }

// listObjects returns the handler of GET /v1/rules, /v1/clients and /v1/overrides.
func listObjects(kind control.Kind) handler {
	return func(s *Server, c *call.Call) error {
		ctx, cancel := context.WithTimeout(c.R.Context(), callTimeout)
		defer cancel()
		q, limit, err := c.ObjectQuery(kind)
		if err != nil {
			return err
		}
		if q.Search = c.Query.Get("q"); len(q.Search) > maxSearch {
			return problem.InvalidQuery("q", q.Search, "at most "+strconv.Itoa(maxSearch)+" bytes")
		}
		revision, _, err := s.config.DB.Revision(ctx, c.Namespace)
		if err != nil {
			return err
		}
		objects, err := s.config.DB.List(ctx, q)
		if err != nil {
			return err
		}
		total, err := s.config.DB.Count(ctx, control.Query{Namespace: c.Namespace, Kind: kind, Search: q.Search, Limit: 1})
		if err != nil {
			return err
		}
		next := ""
		if len(objects) > limit {
			objects = objects[:limit]
			next = call.NewCursor(objects[limit-1].ID)
		}
		page := edit.NewPage(kind, objects)
		page.Next, page.Total, page.Revision = next, total, revision
		c.W.Header().Set("ETag", call.ETag(revision))
		return c.Respond(http.StatusOK, page)
	}
}

// getObject returns the handler of GET /v1/rules/{id} and the like.
func getObject(kind control.Kind) handler {
	return func(s *Server, c *call.Call) error {
		o, err := s.editor.Get(c.R.Context(), c.Namespace, kind, c.Args[0])
		if err != nil {
			return err
		}
		if o == nil {
			return &edit.NotFoundError{Namespace: c.Namespace, Kind: kind, ID: c.Args[0]}
		}
		c.W.Header().Set("ETag", call.ETag(o.Revision))
		known, err := c.Condition("If-None-Match")
		if err != nil {
			return err
		}
		if known.Matches(o.Revision) {
			c.W.WriteHeader(http.StatusNotModified)
			return nil
		}
		return c.Respond(http.StatusOK, edit.NewResource(o))
	}
}

// createObject returns the handler of POST /v1/rules and the like. Overrides without an ID get a random one.
func createObject(kind control.Kind) handler {
	return func(s *Server, c *call.Call) error {
		name, data, err := c.ReadBody()
		if err != nil {
			return err
		}
		var created edit.Edit
		if kind == control.KindOverride {
			created, err = edit.ParseWithID(kind, secret.NewID(), name, data, s.config.Now())
		} else {
			created, err = edit.Parse(kind, name, data, s.config.Now())
		}
		if err != nil {
			return err
		}
		return s.put(c, edit.Put{Kind: kind, ID: created.ID, New: created, MustCreate: true})
	}
}

// putObject returns the handler of PUT /v1/rules/{id} and the like.
func putObject(kind control.Kind) handler {
	return func(s *Server, c *call.Call) error {
		name, data, err := c.ReadBody()
		if err != nil {
			return err
		}
		replacement, err := edit.ParseWithID(kind, c.Args[0], name, data, s.config.Now())
		if err != nil {
			return err
		}
		return s.putConditionally(c, edit.Put{Kind: kind, ID: c.Args[0], New: replacement})
	}
}

// patchObject returns the handler of PATCH /v1/rules/{id} and the like, with a JSON merge patch (RFC 7396).
func patchObject(kind control.Kind) handler {
	return func(s *Server, c *call.Call) error {
		patch, err := readPatch(c)
		if err != nil {
			return err
		}
		_, hasDuration := patch["for"]
		_, hasExpires := patch["expires"]
		if kind == control.KindOverride && hasDuration && !hasExpires {
			patch["expires"] = nil // delete the stored field, which "for" replaces
		}
		return s.putConditionally(c, edit.Put{Kind: kind, ID: c.Args[0], Patch: patch})
	}
}

// readPatch reads a JSON merge patch.
func readPatch(c *call.Call) (map[string]any, error) {
	name, data, err := c.ReadBody()
	if err != nil {
		return nil, err
	}
	if name != call.Unnamed && name != call.JSON {
		return nil, problem.New(http.StatusUnsupportedMediaType, "Send application/merge-patch+json.")
	}
	if _, err := source.Read(call.JSON, data); err != nil {
		return nil, err
	}
	var patch any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&patch); err != nil {
		return nil, problem.New(http.StatusBadRequest, "The body is not valid JSON: %v.", err)
	}
	fields, ok := patch.(map[string]any)
	if !ok {
		return nil, problem.New(http.StatusBadRequest, "Send a JSON object with the fields to change.")
	}
	return fields, nil
}

// putConditionally is like put, but adds the conditions in the call's headers If-Match and If-None-Match.
func (s *Server) putConditionally(c *call.Call, p edit.Put) (err error) {
	if p.Match, err = c.Condition("If-Match"); err != nil {
		return err
	}
	if p.NoneMatch, err = c.Condition("If-None-Match"); err != nil {
		return err
	}
	return s.put(c, p)
}

// put creates or replaces an object, and responds with it.
func (s *Server) put(c *call.Call, p edit.Put) error {
	action := plural(p.Kind) + "." + strings.ToLower(c.R.Method)
	result, err := s.editor.Put(c.R.Context(), c.Change(c.Namespace, action), p)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if result.Created {
		status = http.StatusCreated
		location := "/v1/" + plural(p.Kind) + "/" + url.PathEscape(p.ID)
		if c.Namespace != control.DefaultNamespace {
			location += "?namespace=" + url.QueryEscape(c.Namespace)
		}
		c.W.Header().Set("Location", location)
	}
	c.W.Header().Set("ETag", call.ETag(result.Object.Revision))
	response := edit.NewResource(result.Object)
	response.Warnings = result.Warnings
	return c.Respond(status, response)
}

// deleteObject returns the handler of DELETE /v1/rules/{id} and the like.
func deleteObject(kind control.Kind) handler {
	return func(s *Server, c *call.Call) error {
		match, err := c.Condition("If-Match")
		if err != nil {
			return err
		}
		change := c.Change(c.Namespace, plural(kind)+".delete")
		if err := s.editor.Delete(c.R.Context(), change, kind, c.Args[0], match); err != nil {
			return err
		}
		return c.Respond(http.StatusOK, call.RevisionOnly{Revision: change.Revision})
	}
}

// applyFile serves POST /v1/rules:apply.
func (s *Server) applyFile(c *call.Call) error {
	prune, err := c.Flag("prune")
	if err != nil {
		return err
	}
	options, err := c.CommitOptions()
	if err != nil {
		return err
	}
	name, data, err := c.ReadBody()
	if err != nil {
		return err
	}
	file := edit.File{Name: name, Data: data, Prune: prune}
	result, err := s.editor.ApplyFile(c.R.Context(), c.Change(c.Namespace, "rules.apply"), file, options)
	if err != nil {
		return err
	}
	c.W.Header().Set("ETag", call.ETag(result.Revision))
	return c.Respond(http.StatusOK, result)
}

// Apply gives a namespace the rules and clients of a file, even if the server is read-only. It deletes the rules that
// are not in the file and, if the file has a list of clients, the clients that are not in it. The extension of name
// selects JSON or YAML. Apply returns the namespace's revision. If the file is invalid, Apply changes nothing and
// returns an error with all problems.
func (s *Server) Apply(ctx context.Context, namespace, actor, name string, data []byte) (revision int64, err error) {
	change := &control.Change{Namespace: namespace, Actor: actor, Action: "rules.apply", Note: name}
	result, err := s.editor.ApplyFile(ctx, change, edit.File{Name: name, Data: data, Prune: true}, edit.CommitOptions{})
	if err != nil {
		return 0, err
	}
	return result.Revision, nil
}
