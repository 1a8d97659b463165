package control

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/rules/registry"
)

// An Override temporarily gives one client other limits. It takes precedence over the client's own limits and over the
// overrides in rules, but not over a block.
type Override struct {
	ID string `json:"id"`
	// Client are attributes of the client, such as user: acme. A request with any of these attributes matches.
	Client map[string]string `json:"client"`
	// Rule is the ID of a rule. Empty means every rule with one of the attributes in its key.
	Rule string `json:"rule,omitempty"`
	// Exactly one of the following fields is set: Limits replaces the client's limits, Unlimited removes them, and Block
	// rejects all requests.
	Limits    []string  `json:"limits,omitempty"`
	Unlimited bool      `json:"unlimited,omitempty"`
	Block     bool      `json:"block,omitempty"`
	Expires   time.Time `json:"expires"`
	Note      string    `json:"note,omitempty"`
}

// MaxOverride is the maximum duration of an override. Permanent limits belong to a client.
const MaxOverride = 366 * 24 * time.Hour

// maxOverrideAttributes is the maximum number of attributes that name the client of an override.
const maxOverrideAttributes = 8

// OverrideBody returns the body of an override: JSON on one line. Equal overrides have the same body.
func OverrideBody(o Override) []byte {
	o.Expires = o.Expires.UTC()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(o); err != nil {
		panic("control: encode an override: " + err.Error()) // for years above 9999, which ParseOverride refuses
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// overrideForm is an override as people write it: with the time when it expires, or with the duration For.
type overrideForm struct {
	ID        string            `field:"id"`
	Client    map[string]string `field:"client"`
	Rule      string            `field:"rule"`
	Limits    []string          `field:"limits"`
	Unlimited bool              `field:"unlimited"`
	Block     bool              `field:"block"`
	Expires   time.Time         `field:"expires"`
	For       time.Duration     `field:"for"`
	Note      string            `field:"note"`
}

// ParseOverride reads and validates an override that was stored or that a caller has sent. It may have "for": "72h"
// instead of "expires". The body is YAML if the name ends in .yaml, else JSON. Unless now is zero, the override must
// expire after now, at most MaxOverride later. The error is a *source.Error, as in ParseRule.
func ParseOverride(name string, body []byte, now time.Time) (Override, error) {
	f, err := source.Read(name, body)
	if err != nil {
		return Override{}, err
	}
	var form overrideForm
	problems := overrideCodec().Decode(f, &form)
	o := Override{
		ID: form.ID, Client: form.Client, Rule: form.Rule, Limits: form.Limits, Unlimited: form.Unlimited, Block: form.Block,
		Expires: form.Expires, Note: form.Note,
	}
	if form.For > 0 && !hasField(f.Root, "expires") {
		o.Expires = now.Add(form.For).UTC().Truncate(time.Second)
	}
	contentProblems := o.problems()
	badTime := !now.IsZero() && (!o.Expires.After(now) || o.Expires.Sub(now) > MaxOverride)
	switch {
	case hasField(f.Root, "expires") == hasField(f.Root, "for"):
		want := `either expires, such as 2030-01-31T12:00:00Z, or for, such as "72h"`
		contentProblems = append(contentProblems, rules.Problem{Path: "expires", Want: want})
	case badTime && hasField(f.Root, "for"):
		value, want := rules.FormatDuration(form.For), "a duration above 0, at most 366 days"
		contentProblems = append(contentProblems, rules.Problem{Path: "for", Value: value, Want: want})
	case badTime:
		value, want := o.Expires.Format(time.RFC3339), "a future time, at most 366 days from now"
		contentProblems = append(contentProblems, rules.Problem{Path: "expires", Value: value, Want: want})
	}
	// Omit problems that only follow from a field that could not be read.
	unreadable := slices.ContainsFunc(problems, func(p source.Problem) bool { return p.Path == "" })
	for _, p := range contentProblems {
		if unreadable || source.Follows(p.Path, problems) {
			continue
		}
		located := source.Problem{Path: p.Path, Value: p.Value, Want: p.Want}
		located.Line, located.Column = f.Locate(p.Path)
		problems = append(problems, located)
	}
	if err := f.Error(problems, 0, rules.ErrInvalid); err != nil {
		return Override{}, err
	}
	limits, _ := o.limits() // o.problems has reported their problems
	for i := range limits {
		o.Limits[i] = limits[i].String() // the canonical form
	}
	return o, nil
}

func hasField(n *source.Node, field string) bool { return n != nil && n.Field(field) != nil }

var overrideCodec = sync.OnceValue(func() *source.Codec {
	c := source.NewCodec()
	c.Explain = rules.Explain
	source.RegisterScalar(c, rules.ParseDuration, rules.FormatDuration)
	source.RegisterNode(c, DecodeTime, nil)
	source.RegisterNode(c, decodeValues, nil)
	return c
})

// DecodeTime decodes a time in RFC 3339. Register it in a source.Codec.
func DecodeTime(d *source.Decoder, n *source.Node, path string, into *time.Time) {
	t, err := time.Parse(time.RFC3339, n.Text)
	if n.Kind != source.Scalar || err != nil || t.Year() < 1970 || t.Year() > 9999 {
		d.Refuse(n, path, rules.Quote(n.Text), "a time as in 2030-01-31T12:00:00Z")
		return
	}
	*into = t.UTC()
}

// decodeValues decodes a mapping from attributes to values.
func decodeValues(d *source.Decoder, n *source.Node, path string, into *map[string]string) {
	const want = "attributes with one value each, such as { user: acme }"
	if n.Kind != source.Map {
		d.Refuse(n, path, n.Kind.String(), want)
		return
	}
	*into = make(map[string]string, len(n.Fields))
	for i := range n.Fields {
		f := &n.Fields[i]
		if f.Value.Kind != source.Scalar {
			d.Refuse(f.Value, source.Join(path, f.Name), f.Value.Kind.String(), "one value")
			continue
		}
		(*into)[f.Name] = f.Value.Text
	}
}

// problems returns the invalid fields of an override. An expired override is valid.
func (o *Override) problems() []rules.Problem {
	var list []rules.Problem
	add := func(path, value, want string) {
		list = append(list, rules.Problem{Path: path, Value: value, Want: want})
	}
	if o.ID == "" {
		add("id", "", "an ID")
	}
	if len(o.Client) == 0 || len(o.Client) > maxOverrideAttributes {
		add("client", "", "1 to 8 attributes that name the client, as in { user: acme }")
	}
	if len(o.Note) > rules.MaxText {
		add("note", "", "a shorter note")
	}
	count := 0
	for _, isSet := range []bool{len(o.Limits) > 0, o.Unlimited, o.Block} {
		if isSet {
			count++
		}
	}
	if count != 1 {
		add("limits", "", "exactly one of limits, unlimited: true and block: true")
	}
	c, clientProblems := o.client()
	list = append(list, clientProblems...)
	if count != 1 || len(c.Attributes) == 0 || len(o.Client) > maxOverrideAttributes {
		return list // a registry would report the same problems again
	}
	// An override has the fields of a client, so registering it as a client finds the other problems.
	c.ID = cmp.Or(o.ID, "x") // a missing ID was already reported
	_, err := registry.New(c)
	var invalid *rules.Error
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			path := OverridePath(strings.TrimPrefix(p.Path, "clients[0]."))
			reported := func(p rules.Problem) bool {
				return path == p.Path || strings.HasPrefix(p.Path, path+"[") || path == "limits"
			}
			if len(clientProblems) == 0 || !slices.ContainsFunc(clientProblems, reported) {
				add(path, p.Value, p.Want)
			}
		}
	}
	return list
}

// OverridePath converts the path of a field of the client that AsClient returns into the path of the override's field.
func OverridePath(path string) string {
	inRule := strings.HasPrefix(path, "rules[0]")
	path = strings.TrimPrefix(strings.TrimPrefix(path, "rules[0]"), ".")
	rest, isAttribute := strings.CutPrefix(path, "attributes.")
	switch {
	case isAttribute:
		return "client." + strings.TrimSuffix(rest, "[0]")
	case path == "attributes":
		return "client"
	case inRule && (path == "id" || path == ""):
		return "rule"
	}
	return path
}

// limits returns the valid limits of the override, and the problems of the invalid ones.
func (o *Override) limits() ([]rules.Limit, []rules.Problem) {
	var list []rules.Problem
	limits := make([]rules.Limit, 0, len(o.Limits))
	for i, text := range o.Limits {
		limit, err := headgate.ParseLimit(text)
		if err != nil {
			list = append(list, explain("limits["+strconv.Itoa(i)+"]", err))
			continue
		}
		limits = append(limits, rules.Limit{Limit: limit})
	}
	return limits, list
}

func explain(path string, err error) rules.Problem {
	value, want := rules.Explain(err)
	return rules.Problem{Path: path, Value: value, Want: want}
}

// client returns the override as a client without an ID, and the problems of its attributes and limits.
func (o *Override) client() (rules.Client, []rules.Problem) {
	var list []rules.Problem
	var c rules.Client
	for _, name := range slices.Sorted(maps.Keys(o.Client)) {
		attribute, err := headgate.ParseAttribute(name)
		if err != nil {
			list = append(list, explain(source.Join("client", name), err))
			continue
		}
		c.Attributes = append(c.Attributes, rules.Test{Attribute: attribute, Values: []string{o.Client[name]}})
	}
	limits, limitProblems := o.limits()
	list = append(list, limitProblems...)
	if o.Rule == "" {
		c.Limits, c.Unlimited, c.Block = limits, o.Unlimited, o.Block
	} else {
		c.Rules = []rules.ClientRule{{ID: o.Rule, Limits: limits, Unlimited: o.Unlimited, Block: o.Block}}
	}
	return c, list
}

// AsClient returns a client with the ID, attributes and limits of the override. It stands for a client that is not
// registered.
func (o *Override) AsClient() (rules.Client, error) {
	c, list := o.client()
	if len(list) > 0 {
		return rules.Client{}, &rules.Error{Problems: list}
	}
	c.ID = o.ID
	return c, nil
}

// ApplyTo returns a registered client with the override's limits. The client's blocks remain.
func (o *Override) ApplyTo(c rules.Client) (rules.Client, error) {
	replacement, err := o.AsClient()
	if err != nil {
		return rules.Client{}, err
	}
	if o.Rule == "" {
		// The override also replaces the client's limits for single rules.
		blocks := slices.DeleteFunc(slices.Clone(c.Rules), func(r rules.ClientRule) bool { return !r.Block })
		if c.Block {
			return c, nil
		}
		c.Limits, c.Unlimited, c.Block, c.Rules = replacement.Limits, replacement.Unlimited, replacement.Block, blocks
		return c, nil
	}
	index := slices.IndexFunc(c.Rules, func(r rules.ClientRule) bool { return r.ID == o.Rule })
	switch {
	case index < 0 && c.Block, index >= 0 && c.Rules[index].Block:
		return c, nil
	case index < 0:
		c.Rules = append(slices.Clone(c.Rules), replacement.Rules[0])
	default:
		c.Rules = slices.Clone(c.Rules)
		c.Rules[index] = replacement.Rules[0]
	}
	return c, nil
}
