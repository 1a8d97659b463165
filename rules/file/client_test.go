package file_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
)

func TestPropertiesAreListedAmongAttributes(t *testing.T) {
	named := []rules.Test{{Attribute: headgate.Attribute{Kind: headgate.AttrAPIKey}, Values: []string{"k1", "k2"}}}
	described := []rules.Property{{Name: "plan", Value: "gold"}, {Name: "seats", Value: "012"}, {Name: "beta", Value: "true"}, {Name: "share", Value: "1.50"}}
	for text, want := range map[string]rules.Client{
		`{ id: a, attributes: { plan: gold, seats: 012, beta: true, share: 1.50 } }`:                        {ID: "a", Properties: described},
		`{ id: a, attributes: { plan: gold, api_key: [k1, k2], seats: "012", beta: "true", share: 1.50 } }`: {ID: "a", Attributes: named, Properties: described},
		`{ id: a, attributes: { api_key: [k1, k2] } }`:                                                      {ID: "a", Attributes: named},
		`{ id: a }`: {ID: "a"},
	} {
		got, err := file.ReadClient("client.yaml", []byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", text, got, err, want)
		}
		for form, written := range map[string][]byte{"client.json": file.ClientJSON(&got), "client.yaml": file.ClientYAML(&got)} {
			if again, err := file.ReadClient(form, written); err != nil || !reflect.DeepEqual(again, got) {
				t.Errorf("%s, written as %s: got %+v, %v", text, written, again, err)
			}
		}
	}
}

func TestInvalidPropertiesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`plan: [gold]`:         "attributes.plan: a list: want one value",
		`plan: { name: gold }`: "attributes.plan: a mapping: want one value",
		`plan:`:                "attributes.plan: nothing: want one value",
		`usr: acme`:            "attributes.usr: unknown attribute: want user, or another name for a property",
		`api-key: k`:           "attributes.api-key: unknown attribute: want api_key, or another name for a property",
		`client.plan: gold`:    "attributes.client.plan: unknown attribute: want plan without client.",
	} {
		_, err := file.ReadClient("client.yaml", []byte("id: a\nattributes: { "+text+" }\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	_, err := file.Parse("rules.yaml", []byte("rules:\n  - { id: a, key: [client.plan], limits: [1/s] }\n"))
	if err == nil || !strings.Contains(err.Error(), "rules[0].key[0]") || !strings.Contains(err.Error(), "one counter together") {
		t.Errorf("got %v, want why a key has no properties", err)
	}
}

func TestRulesUseTheClientsPlan(t *testing.T) {
	doc, err := file.Parse("rules.yaml", []byte(`rules:
  - id: a
    key: [user]
    limits: [10/s]
    overrides: [{ when: { client.plan: gold }, limits: [500/s] }]
clients:
  - { id: acme, attributes: { plan: gold } }
  - { id: other, attributes: { plan: silver } }
`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, user := range []string{"acme", "other", "nobody"} {
		m := set.Match(rules.Attributes{{Kind: headgate.AttrUser}: user}, nil)
		got = append(got, m[0].Limits[0].String())
	}
	if want := []string{"500/s", "10/s", "10/s"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
