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
	"github.com/headgate/headgate/rules/source"
)

// An Override gives one client other limits for a while: it counts before what the client has of its own and before the
// overrides of rules, but not before a block.
type Override struct {
	ID string `json:"id"`
	// Client is whom it is for: attributes with one value each, such as user: acme. One of them is enough to be meant.
	Client map[string]string `json:"client"`
	// Rule is the rule that it is of. Empty is every rule that counts by one of these attributes.
	Rule string `json:"rule,omitempty"`
	// Limits are what the client has instead, or it is Unlimited, or blocked.
	Limits    []string `json:"limits,omitempty"`
	Unlimited bool     `json:"unlimited,omitempty"`
	Block     bool     `json:"block,omitempty"`
	// Expires is when it ends.
	Expires time.Time `json:"expires"`
	Note    string    `json:"note,omitempty"`
}

// MaxOverride is the longest that an override may last. What is to last longer is a client's limit.
const MaxOverride = 366 * 24 * time.Hour

// maxOverrideClient is how many attributes may name the client of an override.
const maxOverrideClient = 8

// OverrideBody returns the body of an override: JSON on one line, and the same for equal ones.
func OverrideBody(o Override) []byte {
	o.Expires = o.Expires.UTC()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(o); err != nil {
		panic("control: an override that is no JSON: " + err.Error()) // a time of a year of five digits, which Parse refuses
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// overrideForm is how people may write an override: for a while instead of until a time.
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

// ParseOverride reads the body of an override, or what somebody has sent: YAML if the name ends in .yaml, and "for": "72h"
// from now on instead of "expires". The override has been validated. If now is not the zero time, it has to end after
// that, at most MaxOverride later. The error is as that of ParseRule.
func ParseOverride(name string, body []byte, now time.Time) (Override, error) {
	f, err := source.Read(name, body)
	if err != nil {
		return Override{}, err
	}
	var form overrideForm
	found := overrideCodec().Decode(f, &form)
	o := Override{
		ID: form.ID, Client: form.Client, Rule: form.Rule, Limits: form.Limits, Unlimited: form.Unlimited, Block: form.Block,
		Expires: form.Expires, Note: form.Note,
	}
	if form.For > 0 && !has(f.Root, "expires") {
		o.Expires = now.Add(form.For).UTC().Truncate(time.Second)
	}
	wrong := o.problems()
	late := !now.IsZero() && (!o.Expires.After(now) || o.Expires.Sub(now) > MaxOverride)
	switch {
	case has(f.Root, "expires") == has(f.Root, "for"):
		wrong = append(wrong, rules.Problem{Path: "expires", Want: `a time as in 2030-01-31T12:00:00Z, or for: how long, as in "72h"; one of them`})
	case late && has(f.Root, "for"):
		wrong = append(wrong, rules.Problem{Path: "for", Value: rules.FormatDuration(form.For), Want: "a time above 0, at most 366 days"})
	case late:
		wrong = append(wrong, rules.Problem{Path: "expires", Value: o.Expires.Format(time.RFC3339), Want: "a time to come, at most 366 days from now"})
	}
	whole := slices.ContainsFunc(found, func(p source.Problem) bool { return p.Path == "" })
	for _, p := range wrong {
		if whole || source.Follows(p.Path, found) {
			continue
		}
		made := source.Problem{Path: p.Path, Value: p.Value, Want: p.Want}
		made.Line, made.Column = f.Locate(p.Path)
		found = append(found, made)
	}
	if err := f.Error(found, 0, rules.ErrInvalid); err != nil {
		return Override{}, err
	}
	granted, _ := o.limits() // problems has asked what is wrong with them
	for i := range granted {
		o.Limits[i] = granted[i].String()
	}
	return o, nil
}

func has(n *source.Node, field string) bool { return n != nil && n.Field(field) != nil }

var overrideCodec = sync.OnceValue(func() *source.Codec {
	c := source.NewCodec()
	c.Explain = rules.Explain
	source.Words(c, rules.ParseDuration, rules.FormatDuration)
	source.Nodes(c, decodeTime, nil)
	source.Nodes(c, decodeValues, nil)
	return c
})

func decodeTime(d *source.Decoder, n *source.Node, path string, into *time.Time) {
	t, err := time.Parse(time.RFC3339, n.Text)
	if n.Kind != source.Scalar || err != nil || t.Year() < 1970 || t.Year() > 9999 {
		d.Refuse(n, path, rules.Quote(n.Text), "a time as in 2030-01-31T12:00:00Z")
		return
	}
	*into = t.UTC()
}

// decodeValues takes a mapping of attributes and one value each.
func decodeValues(d *source.Decoder, n *source.Node, path string, into *map[string]string) {
	const want = "a mapping of attributes and a value each, as in { user: acme }"
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

// problems returns what is wrong with an override by itself. Whether it has expired is not: it did, or will.
func (o *Override) problems() []rules.Problem {
	var list []rules.Problem
	add := func(path, value, want string) {
		list = append(list, rules.Problem{Path: path, Value: value, Want: want})
	}
	if o.ID == "" {
		add("id", "", "a name of its own")
	}
	if len(o.Client) == 0 || len(o.Client) > maxOverrideClient {
		add("client", "", "1 to 8 attributes that name the client, as in { user: acme }")
	}
	if len(o.Note) > rules.MaxText {
		add("note", "", "a shorter note")
	}
	granted := 0
	for _, given := range []bool{len(o.Limits) > 0, o.Unlimited, o.Block} {
		if given {
			granted++
		}
	}
	if granted != 1 {
		add("limits", "", "exactly one of limits, unlimited: true and block: true")
	}
	c, wrong := o.client()
	list = append(list, wrong...)
	if granted != 1 || len(c.Attributes) == 0 || len(o.Client) > maxOverrideClient {
		return list // of which a registry would say the same in other words
	}
	// What a client may be told is what a client may have, so a registry knows what is wrong with it.
	c.ID = cmp.Or(o.ID, "x")
	_, err := rules.NewRegistry(c)
	var invalid *rules.Error
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			path := OverridePath(strings.TrimPrefix(p.Path, "clients[0]."))
			told := func(p rules.Problem) bool {
				return path == p.Path || strings.HasPrefix(p.Path, path+"[") || path == "limits"
			}
			if len(wrong) == 0 || !slices.ContainsFunc(wrong, told) {
				add(path, p.Value, p.Want)
			}
		}
	}
	return list
}

// OverridePath returns which field of an override it is that a path below the client is about that Registered returns.
func OverridePath(path string) string {
	inRule := strings.HasPrefix(path, "rules[0]")
	path = strings.TrimPrefix(strings.TrimPrefix(path, "rules[0]"), ".")
	rest, attribute := strings.CutPrefix(path, "attributes.")
	switch {
	case attribute:
		return "client." + strings.TrimSuffix(rest, "[0]")
	case path == "attributes":
		return "client"
	case inRule && (path == "id" || path == ""):
		return "rule"
	}
	return path
}

// limits returns what the override grants, as far as it can be read.
func (o *Override) limits() ([]rules.Limit, []rules.Problem) {
	var list []rules.Problem
	limits := make([]rules.Limit, 0, len(o.Limits))
	for i, text := range o.Limits {
		limit, err := headgate.ParseLimit(text)
		if err != nil {
			list = append(list, explained("limits["+strconv.Itoa(i)+"]", err))
			continue
		}
		limits = append(limits, rules.Limit{Limit: limit})
	}
	return limits, list
}

func explained(path string, err error) rules.Problem {
	value, want := rules.Explain(err)
	return rules.Problem{Path: path, Value: value, Want: want}
}

// client returns the client that the override is for, with what it grants and no id.
func (o *Override) client() (rules.Client, []rules.Problem) {
	var list []rules.Problem
	var c rules.Client
	for _, name := range slices.Sorted(maps.Keys(o.Client)) {
		attribute, err := headgate.ParseAttribute(name)
		if err != nil {
			list = append(list, explained(source.Join("client", name), err))
			continue
		}
		c.Attributes = append(c.Attributes, rules.Test{Attribute: attribute, Values: []string{o.Client[name]}})
	}
	limits, wrong := o.limits()
	list = append(list, wrong...)
	if o.Rule == "" {
		c.Limits, c.Unlimited, c.Block = limits, o.Unlimited, o.Block
	} else {
		c.Rules = []rules.ClientRule{{ID: o.Rule, Limits: limits, Unlimited: o.Unlimited, Block: o.Block}}
	}
	return c, list
}

// Registered returns the override as a client that is registered for the while, for when nobody else has its attributes.
// Its id is that of the override.
func (o *Override) Registered() (rules.Client, error) {
	c, list := o.client()
	if len(list) > 0 {
		return rules.Client{}, &rules.Error{Problems: list}
	}
	c.ID = o.ID
	return c, nil
}

// Over returns what a registered client has while the override lasts. What it is blocked from it stays blocked from.
func (o *Override) Over(c rules.Client) (rules.Client, error) {
	granted, err := o.Registered()
	if err != nil {
		return rules.Client{}, err
	}
	if o.Rule == "" {
		// It is of every rule, also of those that the client has other limits under.
		blocked := slices.DeleteFunc(slices.Clone(c.Rules), func(r rules.ClientRule) bool { return !r.Block })
		if c.Block {
			return c, nil
		}
		c.Limits, c.Unlimited, c.Block, c.Rules = granted.Limits, granted.Unlimited, granted.Block, blocked
		return c, nil
	}
	at := slices.IndexFunc(c.Rules, func(r rules.ClientRule) bool { return r.ID == o.Rule })
	switch {
	case at < 0 && c.Block, at >= 0 && c.Rules[at].Block:
		return c, nil
	case at < 0:
		c.Rules = append(slices.Clone(c.Rules), granted.Rules[0])
	default:
		c.Rules = slices.Clone(c.Rules)
		c.Rules[at] = granted.Rules[0]
	}
	return c, nil
}
