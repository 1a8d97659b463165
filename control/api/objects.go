package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/source"
)

// A sort is rules, clients or overrides: what handlers need to know of them.
type sort struct {
	kind     control.Kind
	plural   string
	autoName bool // one that has no id gets one
	// read reads one as it was sent.
	read func(name string, data []byte, now time.Time) (edit, error)
}

var (
	ruleSort     = &sort{kind: control.KindRule, plural: "rules", read: readRule}
	clientSort   = &sort{kind: control.KindClient, plural: "clients", read: readClient}
	overrideSort = &sort{kind: control.KindOverride, plural: "overrides", autoName: true, read: readOverride}
)

func sortOf(kind control.Kind) *sort {
	switch kind {
	case control.KindRule:
		return ruleSort
	case control.KindClient:
		return clientSort
	default:
		return overrideSort
	}
}

func readRule(name string, data []byte, _ time.Time) (edit, error) {
	r, err := file.ReadRule(name, data)
	if err != nil {
		return edit{}, err
	}
	return ruleEdit(r), nil
}

func ruleEdit(r rules.Rule) edit {
	return edit{kind: control.KindRule, id: r.ID, base: control.Any, rule: &r, body: control.RuleBody(r)}
}

func readClient(name string, data []byte, _ time.Time) (edit, error) {
	c, err := file.ReadClient(name, data)
	if err != nil {
		return edit{}, err
	}
	return clientEdit(c), nil
}

func clientEdit(c rules.Client) edit {
	return edit{kind: control.KindClient, id: c.ID, base: control.Any, client: &c, body: control.ClientBody(c)}
}

func readOverride(name string, data []byte, now time.Time) (edit, error) {
	o, err := control.ParseOverride(name, data, now)
	if err != nil {
		return edit{}, err
	}
	return edit{kind: control.KindOverride, id: o.ID, base: control.Any, override: &o, body: control.OverrideBody(o)}, nil
}

// parseOverride reads a body.
func parseOverride(body []byte) (control.Override, error) {
	return control.ParseOverride("body.json", body, time.Time{})
}

// An item is an object as it is shown.
type item struct {
	Rule     json.RawMessage `json:"rule,omitempty"`
	Client   json.RawMessage `json:"client,omitempty"`
	Override json.RawMessage `json:"override,omitempty"`
	Revision int64           `json:"revision"`
	Created  time.Time       `json:"created"`
	Updated  time.Time       `json:"updated"`
	By       string          `json:"by"`
	// Warnings are what may not be as it was meant.
	Warnings []string `json:"warnings,omitempty"`
}

func itemOf(o *control.Object) item {
	made := item{Revision: o.Revision, Created: o.Created, Updated: o.Updated, By: o.By}
	switch o.Kind {
	case control.KindRule:
		made.Rule = o.Body
	case control.KindClient:
		made.Client = o.Body
	case control.KindOverride:
		made.Override = o.Body
	}
	return made
}

// A page is an answer to a list of objects.
type page struct {
	Rules     *[]item `json:"rules,omitempty"`
	Clients   *[]item `json:"clients,omitempty"`
	Overrides *[]item `json:"overrides,omitempty"`
	Next      string  `json:"next,omitempty"`
	Total     int     `json:"total"`
	Revision  int64   `json:"revision"`
}

// maxSearch is how long a text to search for may be.
const maxSearch = 256

// list serves GET of all of a sort.
func list(of *sort) func(*Server, *call) error {
	return func(s *Server, c *call) error {
		ctx, cancel := context.WithTimeout(c.r.Context(), callTime)
		defer cancel()
		q, limit, err := c.pageOf(c.namespace, of.kind)
		if err != nil {
			return err
		}
		if q.Search = c.query.Get("q"); len(q.Search) > maxSearch {
			return wrongQuery("q", q.Search, "at most "+strconv.Itoa(maxSearch)+" bytes")
		}
		last, _, err := s.config.DB.Revision(ctx, c.namespace)
		if err != nil {
			return err
		}
		objects, err := s.config.DB.List(ctx, q)
		if err != nil {
			return err
		}
		total, err := s.config.DB.Count(ctx, control.Query{Namespace: c.namespace, Kind: of.kind, Search: q.Search, Limit: 1})
		if err != nil {
			return err
		}
		made := page{Total: total, Revision: last}
		if len(objects) > limit {
			objects = objects[:limit]
			made.Next = makeCursor(objects[limit-1].ID)
		}
		items := make([]item, len(objects))
		for i := range objects {
			items[i] = itemOf(&objects[i])
		}
		switch of.kind {
		case control.KindRule:
			made.Rules = &items
		case control.KindClient:
			made.Clients = &items
		case control.KindOverride:
			made.Overrides = &items
		}
		c.w.Header().Set("ETag", etag(last))
		return c.answer(http.StatusOK, made)
	}
}

// isText reports whether a text is one that all databases can keep, and look for.
func isText(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }

// get returns an object, nil if it is not there.
func (s *Server) get(ctx context.Context, namespace string, kind control.Kind, id string) (*control.Object, error) {
	if id == "" || len(id) > control.MaxID || !isText(id) {
		return nil, nil
	}
	o, err := s.config.DB.Get(ctx, namespace, kind, id)
	if errors.Is(err, control.ErrNotFound) {
		return nil, nil
	}
	return o, err
}

func (s *Server) notThere(c *call, of *sort) error {
	return fail(http.StatusNotFound, "There is no %s %s in the namespace %s.", of.kind, rules.Quote(c.args[0]), c.namespace)
}

// show serves GET of one.
func show(of *sort) func(*Server, *call) error {
	return func(s *Server, c *call) error {
		o, err := s.get(c.r.Context(), c.namespace, of.kind, c.args[0])
		switch {
		case err != nil:
			return err
		case o == nil:
			return s.notThere(c, of)
		}
		c.w.Header().Set("ETag", etag(o.Revision))
		if known, err := c.condition("If-None-Match"); err != nil {
			return err
		} else if known.holds(o.Revision) {
			c.w.WriteHeader(http.StatusNotModified)
			return nil
		}
		return c.answer(http.StatusOK, itemOf(o))
	}
}

// create serves POST: it makes one that must not be there.
func create(of *sort) func(*Server, *call) error {
	return func(s *Server, c *call) error {
		name, data, err := c.read()
		if err != nil {
			return err
		}
		read := of.read
		if of.autoName {
			read = of.named(strings.ToLower(rand.Text()[:12]))
		}
		sent, err := read(name, data, s.config.Now())
		if err != nil {
			return err
		}
		return s.write(c, of, sent, func(o *control.Object) error {
			if o == nil {
				return nil
			}
			return fail(http.StatusConflict, "There is a %s %s already. PUT replaces it.", of.kind, sent.id).instead(o, sent.body)
		})
	}
}

// named returns what reads one as it was sent, and gives it an id if it has none.
func (of *sort) named(id string) func(name string, data []byte, now time.Time) (edit, error) {
	return func(name string, data []byte, now time.Time) (edit, error) {
		f, err := source.Read(name, data)
		if err != nil {
			return edit{}, err
		}
		if f.Root == nil || f.Root.Kind != source.Map || f.Root.Field("id") != nil {
			return of.read(name, data, now)
		}
		f.Root.Append("id", source.Text(id))
		made, err := of.read("body.json", source.JSON(f.Root), now)
		var wrong *source.Error
		if errors.As(err, &wrong) { // say where it stands in what was sent
			for i := range wrong.Problems {
				p := &wrong.Problems[i]
				p.Line, p.Column = f.Locate(p.Path)
			}
		}
		return made, err
	}
}

// put serves PUT: it makes one, or replaces it.
func put(of *sort) func(*Server, *call) error {
	return func(s *Server, c *call) error {
		name, data, err := c.read()
		if err != nil {
			return err
		}
		sent, err := of.named(c.args[0])(name, data, s.config.Now())
		if err != nil {
			return err
		}
		return s.replace(c, of, func(*control.Object) (edit, error) { return sent, nil })
	}
}

// patch serves PATCH: what is sent is merged into what is there (RFC 7396).
func patch(of *sort) func(*Server, *call) error {
	return func(s *Server, c *call) error {
		name, data, err := c.read()
		if err != nil {
			return err
		}
		var merge any
		if name != "body" && name != "body.json" {
			return fail(http.StatusUnsupportedMediaType, "Send application/merge-patch+json.")
		}
		if _, err := source.Read("body.json", data); err != nil {
			return err
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&merge); err != nil {
			return fail(http.StatusBadRequest, "The body is no JSON: %v.", err)
		}
		fields, ok := merge.(map[string]any)
		if !ok {
			return fail(http.StatusBadRequest, "Send a JSON object: the fields that are to change.")
		}
		if _, lasts := fields["for"]; of.kind == control.KindOverride && lasts {
			if _, ends := fields["expires"]; !ends {
				fields["expires"] = nil // it was made to end at a time, in place of which this is
			}
		}
		return s.replace(c, of, func(o *control.Object) (edit, error) {
			if o == nil {
				return edit{}, s.notThere(c, of)
			}
			var into any
			d := json.NewDecoder(bytes.NewReader(o.Body))
			d.UseNumber()
			if err := d.Decode(&into); err != nil {
				return edit{}, fmt.Errorf("read %s %s: %w", of.kind, o.ID, err)
			}
			merged, err := json.Marshal(mergePatch(into, merge))
			if err != nil {
				return edit{}, err
			}
			return of.read("body.json", merged, s.config.Now())
		})
	}
}

// mergePatch is that of RFC 7396.
func mergePatch(target, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	into, ok := target.(map[string]any)
	if !ok {
		into = make(map[string]any)
	}
	for name, value := range fields {
		if value == nil {
			delete(into, name)
		} else {
			into[name] = mergePatch(into[name], value)
		}
	}
	return into
}

// replace makes the object that the path names what made returns, if the conditions of the call hold.
func (s *Server) replace(c *call, of *sort, made func(*control.Object) (edit, error)) error {
	match, err := c.condition("If-Match")
	if err != nil {
		return err
	}
	noneMatch, err := c.condition("If-None-Match")
	if err != nil {
		return err
	}
	var sent edit
	return s.writeEdit(c, of, c.args[0], func(o *control.Object) (edit, error) {
		var err error
		if sent, err = made(o); err != nil {
			return edit{}, err
		}
		if sent.id != c.args[0] {
			return edit{}, invalid([]fieldError{{Path: "id", Value: rules.Quote(sent.id), Want: "the id of the path, " + rules.Quote(c.args[0]) + "; a " + string(of.kind) + " cannot be renamed"}}, 0)
		}
		return sent, stale(match, noneMatch, o, sent.body)
	})
}

// stale returns the problem of a caller who was thinking of another object than the one that is there.
func stale(match, noneMatch condition, o *control.Object, body []byte) error {
	revision := int64(0)
	if o != nil {
		revision = o.Revision
	}
	switch {
	case match.given && !match.holds(revision) && o == nil:
		return fail(http.StatusPreconditionFailed, "It is not there: somebody else has deleted it, or it never was.")
	case match.given && !match.holds(revision):
		return fail(http.StatusPreconditionFailed, "Somebody else was faster: it is at revision %d, changed by %s.", o.Revision, o.By).instead(o, body)
	case noneMatch.given && noneMatch.holds(revision):
		return fail(http.StatusPreconditionFailed, "It is there already, at revision %d.", o.Revision).instead(o, body)
	default:
		return nil
	}
}

// write makes an object what was sent, unless refuse says why not.
func (s *Server) write(c *call, of *sort, sent edit, refuse func(*control.Object) error) error {
	return s.writeEdit(c, of, sent.id, func(o *control.Object) (edit, error) { return sent, refuse(o) })
}

// writeEdit commits an edit of one object, which is made by what is there, and answers with the object.
func (s *Server) writeEdit(c *call, of *sort, id string, made func(*control.Object) (edit, error)) error {
	var before *control.Object
	var sent edit
	change := c.change(c.namespace, of.plural+"."+strings.ToLower(c.r.Method))
	var warnings []string
	changed, err := s.commit(c.r.Context(), request{change: change, edits: func(ctx context.Context, sp *space) ([]edit, error) {
		var err error
		if before, err = s.get(ctx, c.namespace, of.kind, id); err != nil {
			return nil, err
		}
		if sent, err = made(before); err != nil {
			return nil, err
		}
		if warnings = nil; sent.override != nil {
			if why := sp.idle(sent.override); why != "" {
				warnings = []string{why}
			}
		}
		if before == nil {
			sent.base = control.Absent
			return []edit{sent}, nil
		}
		if bytes.Equal(before.Body, sent.body) {
			return nil, nil
		}
		sent.base = before.Revision
		return []edit{sent}, nil
	}})
	if err != nil {
		return err
	}
	status, now := http.StatusOK, before
	if changed {
		now = &control.Object{
			Namespace: c.namespace, Kind: of.kind, ID: id, Revision: change.Revision, Body: sent.body,
			Created: change.Time, Updated: change.Time, By: change.Actor,
		}
		if before == nil {
			status = http.StatusCreated
			c.w.Header().Set("Location", location(of, id, c.namespace))
		} else {
			now.Created = before.Created
		}
	}
	c.w.Header().Set("ETag", etag(now.Revision))
	answer := itemOf(now)
	answer.Warnings = warnings
	return c.answer(status, answer)
}

func location(of *sort, id, namespace string) string {
	path := "/v1/" + of.plural + "/" + url.PathEscape(id)
	if namespace != defaultNamespace {
		path += "?namespace=" + url.QueryEscape(namespace)
	}
	return path
}

// remove serves DELETE.
func remove(of *sort) func(*Server, *call) error {
	return func(s *Server, c *call) error {
		match, err := c.condition("If-Match")
		if err != nil {
			return err
		}
		change := c.change(c.namespace, of.plural+".delete")
		_, err = s.commit(c.r.Context(), request{change: change, edits: func(ctx context.Context, _ *space) ([]edit, error) {
			o, err := s.get(ctx, c.namespace, of.kind, c.args[0])
			if err != nil {
				return nil, err
			}
			if o == nil {
				return nil, s.notThere(c, of)
			}
			if err := stale(match, condition{}, o, nil); err != nil {
				return nil, err
			}
			return []edit{{kind: of.kind, id: o.ID, base: o.Revision}}, nil
		}})
		if err != nil {
			return err
		}
		return c.answer(http.StatusOK, revised{change.Revision})
	}
}
