package api_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control/api"
)

// A description is an OpenAPI document.
type description struct{ root map[string]any }

var described = sync.OnceValue(func() *description {
	d := new(description)
	if err := json.Unmarshal(api.OpenAPI(), &d.root); err != nil {
		panic(err)
	}
	return d
})

// follow returns an object of the document, or the one that it refers to; nil if there is none.
func (d *description) follow(node any) map[string]any {
	m, _ := node.(map[string]any)
	ref, ok := m["$ref"].(string)
	if !ok {
		return m
	}
	at := any(d.root)
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		m, _ := at.(map[string]any)
		at = m[part]
	}
	return d.follow(at)
}

// operation returns the description of a method and path, nil if there is none.
func (d *description) operation(method, path string) map[string]any {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	var found map[string]any
	least := math.MaxInt
	for pattern, item := range d.follow(d.root["paths"]) {
		if n, ok := fitsPath(strings.Split(pattern, "/"), parts); ok && n < least {
			if o := d.follow(d.follow(item)[strings.ToLower(method)]); o != nil {
				found, least = o, n
			}
		}
	}
	return found
}

// fitsPath reports whether a path matches a pattern, and the number of variable parts.
func fitsPath(pattern, path []string) (open int, ok bool) {
	if len(pattern) != len(path) {
		return 0, false
	}
	for i := range pattern {
		if !strings.HasPrefix(pattern[i], "{") {
			if pattern[i] != path[i] {
				return 0, false
			}
			continue
		}
		open++
		_, verb, _ := strings.Cut(pattern[i], "}")
		if text, err := url.PathUnescape(path[i]); err != nil || text == "" || !strings.HasSuffix(text, verb) {
			return 0, false
		}
	}
	return open, true
}

// check fails unless the document describes the response.
func (d *description) check(a answer, method, path string) {
	a.t.Helper()
	operation := d.operation(method, path)
	if operation == nil {
		if a.status != 404 && a.status != 405 {
			a.t.Errorf("%s: %d: it is not described", a.what, a.status)
		}
		return
	}
	of := d.follow(d.follow(operation["responses"])[strconv.Itoa(a.status)])
	if of == nil {
		a.t.Errorf("%s: %d is not described: %s", a.what, a.status, a.body)
		return
	}
	content := d.follow(of["content"])
	if content == nil {
		if a.body != "" {
			a.t.Errorf("%s: %d: got a body, %s, want none", a.what, a.status, a.body)
		}
		return
	}
	kind := a.header.Get("Content-Type")
	media := d.follow(content[kind])
	if media == nil {
		a.t.Errorf("%s: %d: Content-Type %q is not described", a.what, a.status, kind)
		return
	}
	if !strings.HasSuffix(kind, "json") || kind == "application/x-ndjson" {
		return
	}
	var value any
	if err := json.Unmarshal([]byte(a.body), &value); err != nil {
		a.t.Errorf("%s: %d: %v\n%s", a.what, a.status, err, a.body)
		return
	}
	if wrong := d.misfit(value, d.follow(media["schema"]), "body"); wrong != "" {
		a.t.Errorf("%s: %d: %s\n%.2000s", a.what, a.status, wrong, a.body)
	}
}

// misfit returns how a value differs from a schema.
func (d *description) misfit(value any, schema map[string]any, path string) string {
	if kind, ok := schema["type"]; ok && !isType(value, kind) {
		return fmt.Sprintf("%s is %.100v: want %v", path, value, kind)
	}
	if list, ok := schema["enum"].([]any); ok && !slices.Contains(list, value) {
		return fmt.Sprintf("%s is %v: want one of %v", path, value, list)
	}
	if text, ok := value.(string); ok && schema["format"] == "date-time" {
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return fmt.Sprintf("%s: %v", path, err)
		}
	}
	if list, ok := schema["oneOf"].([]any); ok {
		var wrong []string
		for _, one := range list {
			if w := d.misfit(value, d.follow(one), path); w != "" {
				wrong = append(wrong, w)
			}
		}
		if len(wrong) != len(list)-1 {
			return fmt.Sprintf("%s fits %d of %d: %q", path, len(list)-len(wrong), len(list), wrong)
		}
	}
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			if wrong := d.misfit(item, d.follow(schema["items"]), path+"["+strconv.Itoa(i)+"]"); wrong != "" {
				return wrong
			}
		}
	case map[string]any:
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				return fmt.Sprintf("%s has no %s", path, name)
			}
		}
		for name, member := range v {
			of := d.follow(d.follow(schema["properties"])[name])
			if of == nil && schema["additionalProperties"] == false {
				return fmt.Sprintf("%s has %s, which is not described", path, name)
			}
			if wrong := d.misfit(member, of, path+"."+name); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

func isType(value, want any) bool {
	if list, ok := want.([]any); ok {
		return slices.ContainsFunc(list, func(one any) bool { return isType(value, one) })
	}
	switch v := value.(type) {
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case float64:
		return want == "number" || want == "integer" && v == math.Trunc(v)
	case []any:
		return want == "array"
	case map[string]any:
		return want == "object"
	default:
		return want == "null"
	}
}

func TestRoutesMatchTheDescription(t *testing.T) {
	d := described()
	ids := map[string]bool{}
	count := 0
	for path, item := range d.follow(d.root["paths"]) {
		for method, operation := range d.follow(item) {
			count++
			o := d.follow(operation)
			id, _ := o["operationId"].(string)
			if id == "" || ids[id] {
				t.Errorf("%s %s: operationId %q: want one of its own", method, path, id)
			}
			ids[id] = true
			at := slices.IndexFunc(api.Routes(), func(r api.Route) bool { return strings.EqualFold(r.Method, method) && r.Path == path })
			if at < 0 {
				t.Errorf("%s %s is described and not there", method, path)
				continue
			}
			route := api.Routes()[at]
			var query []string
			parameters, _ := o["parameters"].([]any)
			for _, p := range parameters {
				if of := d.follow(p); of["in"] == "query" && of["name"] != "namespace" {
					query = append(query, of["name"].(string))
				} else if of["in"] == "path" && !strings.Contains(path, "{"+of["name"].(string)+"}") {
					t.Errorf("%s %s has no %s", method, path, of["name"])
				}
			}
			for _, name := range route.Query {
				if name != "*" && name != "namespace" && !slices.Contains(query, name) {
					t.Errorf("%s %s: ?%s is not described", method, path, name)
				}
			}
			for _, name := range query {
				if !slices.Contains(route.Query, name) && !slices.Contains(route.Query, "*") {
					t.Errorf("%s %s: ?%s is described and not there", method, path, name)
				}
			}
			roles := make([]string, len(route.Roles))
			for i, r := range route.Roles {
				roles[i] = string(r)
			}
			text, _ := o["description"].(string)
			_, named, _ := strings.Cut(text, "For tokens of: ")
			said := strings.Split(strings.TrimSuffix(named, "."), ", ")
			slices.Sort(said)
			slices.Sort(roles)
			if len(roles) > 0 && !slices.Equal(said, roles) {
				t.Errorf("%s %s: described for %v, is for %v", method, path, said, roles)
			}
			if _, open := o["security"]; open != (len(roles) == 0) {
				t.Errorf("%s %s: described as open: %v, is for %v", method, path, open, roles)
			}
		}
	}
	if count != len(api.Routes()) {
		t.Errorf("got %d operations, want %d routes", count, len(api.Routes()))
	}
}

func TestDescriptionIsServed(t *testing.T) {
	s := open(t, api.Config{})
	if got := s.as("", "GET", "/openapi.json", "").wants(200); got.body != string(api.OpenAPI()) {
		t.Error("/openapi.json is not what OpenAPI returns")
	}
	d := described()
	if d.root["openapi"] != "3.1.0" {
		t.Errorf("openapi: got %v, want 3.1.0", d.root["openapi"])
	}
	// The paths of the description are those of the listener that serves it.
	servers, _ := d.root["servers"].([]any)
	if len(servers) != 1 {
		t.Fatalf("got servers %v, want one", d.root["servers"])
	}
	at := s.url + "/openapi.json"
	document, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := d.follow(servers[0])["url"].(string)
	if server, err := document.Parse(text); err != nil || server.JoinPath("/openapi.json").String() != at {
		t.Errorf("got server %q, %v, want the listener that serves the document", text, err)
	}
	var walk func(node any, path string)
	walk = func(node any, path string) {
		switch n := node.(type) {
		case map[string]any:
			if ref, ok := n["$ref"].(string); ok && d.follow(n) == nil {
				t.Errorf("%s: %s leads nowhere", path, ref)
			}
			for name, member := range n {
				walk(member, path+"/"+name)
			}
		case []any:
			for i, item := range n {
				walk(item, path+"/"+strconv.Itoa(i))
			}
		}
	}
	walk(d.root, "#")
}
