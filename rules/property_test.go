package rules_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// on returns a plan as the only property of a client.
func on(plan string) []rules.Property { return []rules.Property{{Name: "plan", Value: plan}} }

func TestPropertyNameMustNotResembleAnAttribute(t *testing.T) {
	t.Parallel()
	const another = ", or another name for a property"
	const form = "a lower-case letter"
	for name, want := range map[string]string{
		"plan": "", "tier": "", "maxUsers": "", "account-manager": "", "a": "", "t_1": "", "ships": "", strings.Repeat("x", 64): "",
		"usr": "user" + another, "users": "user" + another, "USER": "user" + another, "api-key": "api_key" + another, "apiKey": "api_key" + another,
		"Ip": "ip" + another, "pat": "path" + another, "header": "header.<name>" + another, "cookies": "cookie.<name>" + another,
		"client": "another name", "Plan": form, "1plan": form, "a.b": form, "a b": form, "plän": form, strings.Repeat("x", 65): form,
	} {
		c := rules.Client{ID: "acme", Properties: []rules.Property{{Name: name, Value: "x"}}}
		refusedAt(t, name, "clients[0].attributes."+name, want, rules.Validate([]rules.Rule{{ID: "a", Limits: limits("1/s")}}, c))
		_, err := rules.ParseTested("client." + name)
		if got := err == nil; got != (want == "") {
			t.Errorf("client.%s: got %v, want an error: %t", name, err, want != "")
		}
	}
}

func TestPropertyWithoutNameAndValueIsRefused(t *testing.T) {
	t.Parallel()
	var invalid *rules.Error
	c := rules.Client{ID: "acme", Properties: []rules.Property{{}}}
	if err := c.Validate(); !errors.As(err, &invalid) || len(invalid.Problems) != 2 {
		t.Fatalf("got %v, want two problems", err)
	}
	if got, want := invalid.Problems[1].String(), `client.attributes: "": want a value`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestInvalidPropertiesAreRefused(t *testing.T) {
	t.Parallel()
	many := make([]rules.Property, rules.MaxProperties+1)
	for i := range many {
		many[i] = rules.Property{Name: fmt.Sprint("p", i), Value: "x"}
	}
	for name, tt := range map[string]struct {
		given      []rules.Property
		path, want string
	}{
		"too many":  {many, "clients[0].attributes", "at most 16"},
		"as many":   {many[1:], "", ""},
		"twice":     {append(on("a"), on("b")...), "clients[0].attributes.plan", "once"},
		"empty":     {on(""), "clients[0].attributes.plan", "no plan at all"},
		"too long":  {on(strings.Repeat("x", 257)), "clients[0].attributes.plan", "at most 256 bytes"},
		"as long":   {on(strings.Repeat("x", 256)), "", ""},
		"a control": {on("a\x00b"), "clients[0].attributes.plan", "without control characters"},
		"not UTF-8": {on("a\xffb"), "clients[0].attributes.plan", "of UTF-8"},
	} {
		refusedAt(t, name, tt.path, tt.want, rules.Validate([]rules.Rule{{ID: "a", Limits: limits("1/s")}}, rules.Client{ID: "acme", Properties: tt.given}))
	}
	plan := headgate.Attribute{Kind: headgate.AttrClient, Name: "plan"}
	in := func(a headgate.Attribute) error {
		return rules.Validate(nil, rules.Client{ID: "acme", Attributes: is(a, "x").Tests})
	}
	refusedAt(t, "as an attribute", "clients[0].attributes.client.plan", "request attribute", in(plan))
	refusedAt(t, "in a key", "rules[0].key[0]", "one counter together",
		rules.Validate([]rules.Rule{{ID: "a", Key: []headgate.Attribute{plan}, Limits: limits("1/s")}}))
}
