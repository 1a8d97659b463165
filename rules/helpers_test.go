package rules_test

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

var (
	host = headgate.Attribute{Kind: headgate.AttrHost}
	path = headgate.Attribute{Kind: headgate.AttrPath}
	user = headgate.Attribute{Kind: headgate.AttrUser}
)

func header(name string) headgate.Attribute {
	return headgate.Attribute{Kind: headgate.AttrHeader, Name: name}
}

func limits(texts ...string) []rules.Limit {
	list := make([]rules.Limit, len(texts))
	for i, text := range texts {
		list[i].Limit = headgate.MustParseLimit(text)
	}
	return list
}

func is(a headgate.Attribute, values ...string) rules.Condition {
	return rules.Condition{Tests: []rules.Test{{Attribute: a, Values: values}}}
}
