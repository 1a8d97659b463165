package httpapi_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/service/httpapi"
)

// A description is an OpenAPI document.
type description struct{ root map[string]any }

func readSchema(t testing.TB) *description {
	t.Helper()
	d := new(description)
	if err := json.Unmarshal(httpapi.OpenAPI(), &d.root); err != nil {
		t.Fatal(err)
	}
	return d
}

// at returns what a reference such as #/components/schemas/Problem points to, nil if there is nothing.
func (d *description) at(ref string) any {
	var node any = d.root
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		m, ok := node.(map[string]any)
		if !ok {
			return nil
		}
		node = m[strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")]
	}
	return node
}

// follow returns an object of the document, or the one that it refers to.
func (d *description) follow(node any) map[string]any {
	m, _ := node.(map[string]any)
	if ref, ok := m["$ref"].(string); ok {
		return d.follow(d.at(ref))
	}
	return m
}

// check fails unless the document describes the response.
func (d *description) check(t testing.TB, method, path string, r *http.Response, body string) {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	of := d.follow(d.follow(d.root["paths"])[path])
	if of == nil {
		return // an unknown path, which got a problem
	}
	operation := d.follow(of[strings.ToLower(method)])
	if operation == nil && r.StatusCode == http.StatusMethodNotAllowed {
		for _, other := range of {
			operation = d.follow(other)
		}
	}
	answer := d.follow(d.follow(operation["responses"])[strconv.Itoa(r.StatusCode)])
	if answer == nil {
		t.Errorf("%s %s: %d is not described", method, path, r.StatusCode)
		return
	}
	headers := d.follow(answer["headers"])
	for name := range r.Header {
		switch name {
		case "Content-Type", "Content-Length", "Cache-Control", "Allow", "Www-Authenticate", "X-Headgate-Status":
			continue
		}
		if !slices.ContainsFunc(keys(headers), func(known string) bool { return strings.EqualFold(known, name) }) && answer["content"] == nil {
			t.Errorf("%s %s: %d: header %s is not described", method, path, r.StatusCode, name)
		}
	}
	kind := r.Header.Get("Content-Type")
	content := d.follow(answer["content"])
	if content == nil {
		if body != "" {
			t.Errorf("%s %s: %d: got a body, %s, want none", method, path, r.StatusCode, body)
		}
		return
	}
	media := d.follow(content[kind])
	if media == nil {
		t.Errorf("%s %s: %d: Content-Type %q is not described", method, path, r.StatusCode, kind)
		return
	}
	var value any
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Errorf("%s %s: %d: the body is no JSON: %v\n%s", method, path, r.StatusCode, err, body)
		return
	}
	if wrong := d.fits(value, d.follow(media["schema"]), "body"); wrong != "" {
		t.Errorf("%s %s: %d: %s\n%s", method, path, r.StatusCode, wrong, body)
	}
}

func keys(m map[string]any) []string {
	var list []string
	for name := range m {
		list = append(list, name)
	}
	return list
}

// fits returns how a value differs from a schema. It knows the keywords of JSON Schema in the document; an unknown
// keyword is an error, too.
func (d *description) fits(value any, schema map[string]any, path string) string {
	for _, word := range keys(schema) {
		switch word {
		case "type":
			if !hasType(value, schema["type"]) {
				return fmt.Sprintf("%s is %v: want %v", path, value, schema["type"])
			}
		case "enum":
			if !slices.Contains(schema["enum"].([]any), value) {
				return fmt.Sprintf("%s is %v: want one of %v", path, value, schema["enum"])
			}
		case "const":
			if value != schema["const"] {
				return fmt.Sprintf("%s is %v: want %v", path, value, schema["const"])
			}
		case "minimum":
			if n, ok := value.(float64); ok && n < schema["minimum"].(float64) {
				return fmt.Sprintf("%s is %v: want at least %v", path, value, schema["minimum"])
			}
		case "format":
			if schema["format"] == "date-time" {
				if _, err := time.Parse(time.RFC3339, value.(string)); err != nil {
					return fmt.Sprintf("%s: %v", path, err)
				}
			}
		case "maxProperties":
			if m, ok := value.(map[string]any); ok && float64(len(m)) > schema["maxProperties"].(float64) {
				return fmt.Sprintf("%s has %d members: want at most %v", path, len(m), schema["maxProperties"])
			}
		case "required":
			m, _ := value.(map[string]any)
			for _, name := range schema["required"].([]any) {
				if _, there := m[name.(string)]; !there {
					return fmt.Sprintf("%s has no %s", path, name)
				}
			}
		case "properties", "additionalProperties":
			m, _ := value.(map[string]any)
			for name, member := range m {
				of := d.follow(d.follow(schema["properties"])[name])
				if of == nil {
					if schema["additionalProperties"] == false {
						return fmt.Sprintf("%s has %s, which is not described", path, name)
					}
					of = d.follow(schema["additionalProperties"])
				}
				if wrong := d.fits(member, of, path+"."+name); wrong != "" {
					return wrong
				}
			}
		case "items":
			list, _ := value.([]any)
			for i, item := range list {
				if wrong := d.fits(item, d.follow(schema["items"]), fmt.Sprintf("%s[%d]", path, i)); wrong != "" {
					return wrong
				}
			}
		case "oneOf":
			fit := 0
			var all []string
			for _, one := range schema["oneOf"].([]any) {
				wrong := d.fits(value, d.follow(one), path)
				if wrong == "" {
					fit++
				}
				all = append(all, wrong)
			}
			if fit != 1 {
				return fmt.Sprintf("%s fits %d of %d: %q", path, fit, len(all), all)
			}
		case "description", "$ref":
		default:
			return fmt.Sprintf("%s: the test does not know the word %s", path, word)
		}
	}
	return ""
}

func hasType(value, want any) bool {
	if list, ok := want.([]any); ok {
		return slices.ContainsFunc(list, func(one any) bool { return hasType(value, one) })
	}
	switch v := value.(type) {
	case nil:
		return want == "null"
	case bool:
		return want == "boolean"
	case string:
		return want == "string"
	case float64:
		return want == "number" || want == "integer" && v == math.Trunc(v)
	case []any:
		return want == "array"
	default:
		return want == "object"
	}
}

func TestOpenAPIReferencesResolve(t *testing.T) {
	d := readSchema(t)
	var walk func(node any, path string)
	walk = func(node any, path string) {
		switch n := node.(type) {
		case map[string]any:
			if ref, ok := n["$ref"].(string); ok && d.at(ref) == nil {
				t.Errorf("%s: %s leads nowhere", path, ref)
			}
			for name, member := range n {
				walk(member, path+"/"+name)
			}
		case []any:
			for i, item := range n {
				walk(item, fmt.Sprintf("%s/%d", path, i))
			}
		}
	}
	walk(d.root, "#")
	if got := d.root["openapi"]; got != "3.1.0" {
		t.Errorf("openapi: got %v, want 3.1.0", got)
	}
}

// The paths of the description are those of the listener that serves it.
func TestOpenAPIServerIsItsListener(t *testing.T) {
	var doc struct {
		Servers []struct{ URL, Description string }
	}
	if err := json.Unmarshal(httpapi.OpenAPI(), &doc); err != nil || len(doc.Servers) != 1 {
		t.Fatalf("got servers %+v, %v, want one", doc.Servers, err)
	}
	const at = "http://192.0.2.7:9000/openapi.json"
	document, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	server, err := document.Parse(doc.Servers[0].URL)
	if err != nil || server.JoinPath("/openapi.json").String() != at {
		t.Errorf("got server %q, %v, want the listener that serves the document", doc.Servers[0].URL, err)
	}
	if !strings.Contains(doc.Servers[0].Description, "the listener that serves this document") {
		t.Errorf("got description %q, want which listener it is", doc.Servers[0].Description)
	}
}

func TestOpenAPIMatchesTheRoutes(t *testing.T) {
	d := readSchema(t)
	a := newAPI(t, "rules: []", httpapi.Config{})
	described := d.follow(d.root["paths"])
	seen := make(map[string]bool)
	for path, item := range described {
		for method, operation := range d.follow(item) {
			id, _ := d.follow(operation)["operationId"].(string)
			if id == "" || seen[id] {
				t.Errorf("%s %s: operationId %q: want one of its own", method, path, id)
			}
			seen[id] = true
			r := a.call(strings.ToUpper(method), path, "")
			if r.StatusCode == http.StatusNotFound || r.StatusCode == http.StatusMethodNotAllowed {
				t.Errorf("%s %s: got %d, want it to be there", method, path, r.StatusCode)
			}
			d.check(t, method, path, r, text(t, r))
		}
	}
	for _, path := range httpapi.Paths() {
		if described[path] == nil {
			t.Errorf("%s is not described", path)
		}
	}
	if served := text(t, a.call("GET", "/openapi.json", "")); served != string(httpapi.OpenAPI()) {
		t.Errorf("/openapi.json: got %d bytes that are not those of OpenAPI", len(served))
	}
}

// The API accepts the examples of the description.
func TestOpenAPIExamplesAreAccepted(t *testing.T) {
	d := readSchema(t)
	a := newAPI(t, "rules: [{ id: search-per-user, key: user, limits: 5/h }]", httpapi.Config{})
	examples := d.at("#/paths/~1v1~1ratelimit/post/requestBody/content/application~1json/examples").(map[string]any)
	for name, example := range examples {
		value := d.follow(example)["value"]
		if wrong := d.fits(value, d.follow(d.at("#/components/schemas/Request")), name); wrong != "" {
			t.Error(wrong)
		}
		body, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		a.wants(t, http.StatusOK, `"passed":true`, "POST", "/v1/ratelimit", string(body))
	}
}
