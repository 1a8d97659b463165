package edit

import (
	"errors"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
)

// An Edit is the new content of one object.
type Edit struct {
	Kind control.Kind
	ID   string
	Body []byte // nil deletes the object
	// Path and Line are the position of the object in the request, for error messages.
	Path string
	Line int

	base int64 // control.Op.Base

	// One of the following fields is the parsed body. All are nil if the edit deletes the object.
	rule     *rules.Rule
	client   *rules.Client
	override *control.Override
}

// Parse reads a rule, a client or an override. The extension of name selects JSON or YAML. An override with a duration
// starts at now.
func Parse(kind control.Kind, name string, data []byte, now time.Time) (Edit, error) {
	switch kind {
	case control.KindRule:
		r, err := file.ReadRule(name, data)
		if err != nil {
			return Edit{}, err
		}
		return ruleEdit(r), nil
	case control.KindClient:
		c, err := file.ReadClient(name, data)
		if err != nil {
			return Edit{}, err
		}
		return clientEdit(c), nil
	default:
		o, err := control.ParseOverride(name, data, now)
		if err != nil {
			return Edit{}, err
		}
		return Edit{Kind: kind, ID: o.ID, base: control.AnyRevision, override: &o, Body: control.OverrideBody(o)}, nil
	}
}

// deletion returns the edit that deletes an object if it has this revision.
func deletion(kind control.Kind, id string, base int64) Edit {
	return Edit{Kind: kind, ID: id, base: base}
}

func ruleEdit(r rules.Rule) Edit {
	return Edit{Kind: control.KindRule, ID: r.ID, base: control.AnyRevision, rule: &r, Body: control.RuleBody(r)}
}

func clientEdit(c rules.Client) Edit {
	return Edit{Kind: control.KindClient, ID: c.ID, base: control.AnyRevision, client: &c, Body: control.ClientBody(c)}
}

// ParseWithID is like Parse, but sets the ID if the object has none.
func ParseWithID(kind control.Kind, id, name string, data []byte, now time.Time) (Edit, error) {
	f, err := source.Read(name, data)
	if err != nil {
		return Edit{}, err
	}
	if f.Root == nil || f.Root.Kind != source.Map || f.Root.Field("id") != nil {
		return Parse(kind, name, data, now)
	}
	f.Root.Append("id", source.Text(id))
	e, err := Parse(kind, "body.json", source.JSON(f.Root), now)
	var invalid *source.Error
	if errors.As(err, &invalid) { // replace positions in the generated JSON by positions in data
		for i := range invalid.Problems {
			p := &invalid.Problems[i]
			p.Line, p.Column = f.Locate(p.Path)
		}
	}
	return e, err
}
