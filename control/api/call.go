package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/internal/bodytype"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/source"
)

// defaultNamespace is the one of calls that name none.
const defaultNamespace = "default"

// A call is a request by someone who may make it.
type call struct {
	w         http.ResponseWriter
	r         *http.Request
	route     *route
	args      []string // the values in the path
	query     url.Values
	who       *principal
	from      string
	namespace string
	maxBody   int64
	large     *largeBodies
	leave     func() // ends the turn of a large body, nil if there was none
}

// end ends the turn of a large body.
func (c *call) end() {
	if c.leave != nil {
		c.leave()
	}
}

// answer sends a value as JSON.
func (c *call) answer(status int, v any) error {
	var text bytes.Buffer
	if err := encode(&text, v); err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(text.Len()))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(text.Bytes()) // a caller that is gone has no use for it
	return nil
}

// bodyTime is how long a caller may take to send a body, and to take an answer.
const bodyTime = time.Minute

// give lets a slow caller have some time more. Servers and tests that know no deadlines have none to extend.
func (c *call) give(read, write time.Duration) {
	rc := http.NewResponseController(c.w)
	now := time.Now() // deadlines of connections are of the system's clock
	_ = rc.SetReadDeadline(now.Add(read))
	_ = rc.SetWriteDeadline(now.Add(write))
}

// read returns the body, and a name that says which form it has. A large one waits for its turn, which lasts until the call
// ends.
func (c *call) read() (name string, data []byte, err error) {
	if name, err = c.form(); err != nil {
		return "", nil, err
	}
	if c.r.ContentLength > c.maxBody {
		return "", nil, c.tooLarge()
	}
	c.give(bodyTime, 2*bodyTime)
	body := http.MaxBytesReader(c.w, c.r.Body, c.maxBody)
	if data, err = io.ReadAll(io.LimitReader(body, smallBody)); err == nil && len(data) == smallBody {
		if c.leave == nil {
			if c.leave, err = c.large.enter(c.r.Context(), c.who); err != nil {
				return "", nil, err
			}
		}
		c.give(bodyTime, 2*bodyTime)
		data, err = readRest(data, body, c.r.ContentLength)
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return "", nil, c.tooLarge()
	case err != nil:
		return "", nil, fail(http.StatusBadRequest, "The body did not arrive: %v.", err)
	}
	if err := bodyBounds.Check(name, data); err != nil {
		return "", nil, fail(http.StatusRequestEntityTooLarge, "The body takes too much memory: %v. Large bodies are sent as JSON, and clients line by line "+
			"to /v1/clients:import.", err)
	}
	return name, data, nil
}

// readRest reads what comes after the first part of a body, whose length is known if it is not negative.
func readRest(first []byte, body io.Reader, length int64) ([]byte, error) {
	whole := bytes.NewBuffer(first)
	if length > 0 {
		whole = bytes.NewBuffer(make([]byte, 0, length+bytes.MinRead))
		whole.Write(first)
	}
	_, err := whole.ReadFrom(body)
	return whole.Bytes(), err
}

func (c *call) tooLarge() error {
	return fail(http.StatusRequestEntityTooLarge, "The body is longer than %d bytes. Clients can be sent line by line to /v1/clients:import, as many as there are.", c.maxBody)
}

// form returns a name for the body by which it is told whether it is JSON or YAML.
func (c *call) form() (string, error) {
	if e := c.r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return "", fail(http.StatusUnsupportedMediaType, "Content-Encoding %s: send the body as it is.", rules.Quote(e))
	}
	given := c.r.Header.Get("Content-Type")
	switch bodytype.Of(given) {
	case bodytype.Unset:
		return "body", nil
	case bodytype.JSON:
		return "body.json", nil
	case bodytype.YAML:
		return "body.yaml", nil
	case bodytype.NDJSON:
		return "body.ndjson", nil
	default:
		return "", fail(http.StatusUnsupportedMediaType, "Content-Type %s: want application/json or application/yaml.", rules.Quote(given))
	}
}

// readInto reads a body of JSON, strictly: a field that is misspelt must not be one that is not there.
func (c *call) readInto(v any) error {
	name, data, err := c.read()
	if err != nil {
		return err
	}
	return decodeStrictly(name, data, v)
}

// readKnown reads a body of JSON of a program that may be of a later version: fields that are not known here are left out.
func (c *call) readKnown(v any) error {
	name, data, err := c.read()
	if err != nil {
		return err
	}
	return decode(name, data, v, false)
}

func decodeStrictly(name string, data []byte, v any) error {
	return decode(name, data, v, true)
}

func decode(name string, data []byte, v any, strictly bool) error {
	if name != "body" && name != "body.json" {
		return fail(http.StatusUnsupportedMediaType, "Send JSON.")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return fail(http.StatusBadRequest, "There is no body: want a JSON object.")
	}
	f, err := source.Read("body.json", data) // members that stand twice, depth, and where what is wrong
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if strictly {
		d.DisallowUnknownFields()
		if wrong := unknownFields(f, fieldsOf(v)); len(wrong) > 0 {
			return invalid(wrong, 0)
		}
	}
	if wrong := misfits(f.Root, reflect.TypeOf(v), ""); len(wrong) > 0 {
		return invalid(wrong, 0)
	}
	if err := d.Decode(v); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return invalid([]fieldError{{Path: kind.Field, Value: "a " + kind.Value, Want: wantOf(kind)}}, 0)
		}
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			path, _ := strconv.Unquote(name)
			return invalid([]fieldError{{Path: path, Value: "unknown field", Want: "a field that there is; see /openapi.json"}}, 0)
		}
		return invalid([]fieldError{{Value: err.Error(), Want: "what /openapi.json describes"}}, 0)
	}
	return nil
}

// fieldsOf returns the names of the fields of a struct in JSON, given a pointer to it.
func fieldsOf(v any) (names []string) {
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// unknownFields returns those of an object that are none of these.
func unknownFields(f *source.File, known []string) (wrong []fieldError) {
	if f.Root == nil || f.Root.Kind != source.Map {
		return nil
	}
	for _, field := range f.Root.Fields {
		if !slices.Contains(known, field.Name) && len(wrong) < rules.MaxProblems {
			wrong = append(wrong, fieldError{
				Path: field.Name, Value: "unknown field", Want: "one of " + strings.Join(known, ", "), Line: field.Line, Column: field.Column,
			})
		}
	}
	return wrong
}

// misfits returns the fields of an object that are to be times or maps of texts, by the struct that it is read into, and are not.
// What else is wrong the decoder says with its path.
func misfits(n *source.Node, t reflect.Type, at string) (wrong []fieldError) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n == nil || n.Kind != source.Map || t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		given, of := n.Field(name), t.Field(i).Type
		switch {
		case given == nil || given.Kind == source.Null:
		case of == reflect.TypeFor[time.Time]():
			if _, err := time.Parse(time.RFC3339, given.Text); err != nil || !given.Quoted {
				wrong = append(wrong, misfit(at+name, given, "a time, such as 2027-01-31T18:00:00Z"))
			}
		case of == reflect.TypeFor[map[string]string]():
			for _, member := range given.Fields {
				if !member.Value.Quoted && len(wrong) < rules.MaxProblems {
					wrong = append(wrong, misfit(at+name+"."+member.Name, member.Value, "a text"))
				}
			}
		default:
			wrong = append(wrong, misfits(given, of, at+name+".")...)
		}
	}
	return wrong
}

func misfit(path string, n *source.Node, want string) fieldError {
	value := n.Kind.String()
	if n.Kind == source.Scalar {
		value = n.Text
		if n.Quoted {
			value = rules.Quote(n.Text)
		}
	}
	return fieldError{Path: path, Value: value, Want: want, Line: n.Line, Column: n.Column}
}

// wantOf says what a field of Go's is in JSON.
func wantOf(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "slice":
		return "a list"
	case "map", "struct":
		return "an object"
	case "int", "int64":
		return "a whole number"
	case "bool":
		return "true or false"
	default:
		return "a " + e.Type.Kind().String()
	}
}

// flag reads a parameter that is true or false. One without a value is true.
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
		return false, wrongQuery(name, v, "true or false")
	}
}

// dryRun reports whether the call asks what would change, and changes nothing.
func (c *call) dryRun() bool {
	dry, err := c.flag("dry_run") // only routes that know it get this far with it
	return err == nil && dry
}

// number reads a parameter that is a whole number.
func (c *call) number(name string, or, least, most int64) (int64, error) {
	text := c.query.Get(name)
	if text == "" {
		return or, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, wrongQuery(name, text, strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
	}
	return n, nil
}

// maxNote is how long the note of a change may be, in bytes.
const maxNote = 1000

// A cursor is where a page begins. Callers hand it back as they got it.
func makeCursor(last string) string {
	return base64.RawURLEncoding.EncodeToString([]byte("v1 " + last))
}

// cursor reads the cursor of a call, empty if it has none.
func (c *call) cursor() (string, error) {
	text := c.query.Get("cursor")
	if text == "" {
		return "", nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	last, ok := strings.CutPrefix(string(data), "v1 ")
	if err != nil || !ok || last == "" || len(last) > control.MaxID || !utf8.ValidString(last) || strings.IndexByte(last, 0) >= 0 {
		return "", wrongQuery("cursor", text, "the next of the page before")
	}
	return last, nil
}

// pageOf returns the query of the page that a call asks for, and how many it wants: the query asks for one more, which reports whether
// there is a next page.
func (c *call) pageOf(namespace string, kind control.Kind) (q control.Query, limit int, err error) {
	n, err := c.number("limit", 100, 1, 1000)
	if err != nil {
		return q, 0, err
	}
	after, err := c.cursor()
	if err != nil {
		return q, 0, err
	}
	q = control.Query{Namespace: namespace, Kind: kind, Limit: int(n) + 1}
	if after != "" {
		q.AfterNamespace, q.AfterID = namespace, after
	}
	return q, int(n), nil
}

// revisionCursor reads a cursor that is a revision, 0 for none.
func (c *call) revisionCursor() (int64, error) {
	last, err := c.cursor()
	if err != nil || last == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(last, 10, 64)
	if err != nil || n < 1 {
		return 0, wrongQuery("cursor", c.query.Get("cursor"), "the next of the page before")
	}
	return n, nil
}

// etag is the entity tag of a revision.
func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// A condition is what If-Match or If-None-Match say.
type condition struct {
	given bool
	any   bool // *
	tags  []int64
	texts []string // all of them, as they are written
}

func (c *call) condition(header string) (condition, error) {
	values := c.r.Header.Values(header)
	if len(values) == 0 {
		return condition{}, nil
	}
	made := condition{given: true}
	for text := range strings.SplitSeq(strings.Join(values, ","), ",") {
		text = strings.TrimSpace(text)
		if text == "*" {
			made.any = true
			continue
		}
		if header == "If-None-Match" {
			text = strings.TrimPrefix(text, "W/")
		}
		inner, ok := strings.CutPrefix(text, `"`)
		if ok {
			inner, ok = strings.CutSuffix(inner, `"`)
		}
		if !ok {
			return condition{}, fail(http.StatusBadRequest, "%s: %s: want the ETag of an answer, such as \"42\", or *.", header, rules.Quote(text))
		}
		if n, err := strconv.ParseInt(inner, 10, 64); err == nil && n > 0 { // any other tag is right, and of nothing here
			made.tags = append(made.tags, n)
		}
		made.texts = append(made.texts, inner)
	}
	return made, nil
}

// holds reports whether the condition names a revision: 0 stands for what is not there.
func (c *condition) holds(revision int64) bool {
	if c.any && revision != 0 {
		return true
	}
	for _, tag := range c.tags {
		if tag == revision {
			return true
		}
	}
	return false
}

// parseQuery reads the parameters of an address.
func parseQuery(raw string) (url.Values, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fail(http.StatusBadRequest, "The parameters of the address cannot be read: %v.", err)
	}
	return query, nil
}
