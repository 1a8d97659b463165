package file_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
)

// A schema is a part of a JSON Schema as a generic value.
type schema = map[string]any

func readSchema(t testing.TB) schema {
	t.Helper()
	var s schema
	if err := json.Unmarshal(rules.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchemaHasEveryFieldOfTheModelAndNoOther(t *testing.T) {
	root := readSchema(t)
	defs := root["$defs"].(schema)
	cost := defs["cost"].(schema)["oneOf"].([]any)[1].(schema)
	for _, tt := range []struct {
		name   string
		schema schema
		model  reflect.Type
	}{
		{"a file", root, reflect.TypeFor[file.Document]()},
		{"rule", defs["rule"].(schema), reflect.TypeFor[rules.Rule]()},
		{"override", defs["override"].(schema), reflect.TypeFor[rules.Override]()},
		{"penalty", defs["penalty"].(schema), reflect.TypeFor[rules.Penalty]()},
		{"client", defs["client"].(schema), reflect.TypeFor[rules.Client]()},
		{"clientRule", defs["clientRule"].(schema), reflect.TypeFor[rules.ClientRule]()},
		{"cost", cost, reflect.TypeFor[rules.Cost]()},
		{"namedLimit", defs["namedLimit"].(schema), file.NamedLimit},
	} {
		var got []string
		for name := range tt.schema["properties"].(schema) {
			got = append(got, name)
		}
		want := file.Fields(tt.model)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", tt.name, got, want)
		}
		if tt.schema["additionalProperties"] != false {
			t.Errorf("%s: takes fields that are not known", tt.name)
		}
	}
}

// at returns the value at a path of a schema.
func at(t *testing.T, from any, path ...string) any {
	t.Helper()
	for _, name := range path {
		fields, _ := from.(schema)
		if from = fields[name]; from == nil {
			t.Fatalf("the schema has no %s", strings.Join(path, "."))
		}
	}
	return from
}

func TestSchemaHasEveryAttributeAndNoOther(t *testing.T) {
	defs := at(t, readSchema(t), "$defs")
	var plain, named []string
	for kind := headgate.AttrIP; kind < headgate.AttrClient; kind++ {
		if kind.Named() {
			named = append(named, kind.String())
		} else {
			plain = append(plain, kind.String())
		}
	}
	slices.Sort(plain)
	pattern := `^(` + strings.Join(named, "|") + `)\..+$`
	sorted := func(list []string) []string { slices.Sort(list); return list }
	keys := func(from any) []string { return sorted(slices.Collect(maps.Keys(from.(schema)))) }
	const property = `[a-z][A-Za-z0-9_-]{0,63}`
	patterns := map[string][]string{"condition": {pattern, `^client\.` + property + `$`}, "attributes": {pattern}}
	for name, want := range map[string][]string{"condition": append([]string{"any", "all", "not"}, plain...), "attributes": plain} {
		if got := keys(at(t, defs, name, "properties")); !slices.Equal(got, sorted(slices.Clone(want))) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, want)
		}
		if got := keys(at(t, defs, name, "patternProperties")); !slices.Equal(got, patterns[name]) {
			t.Errorf("%s: got %v, want %s", name, got, patterns[name])
		}
	}
	if got, want := at(t, defs, "attributes", "propertyNames", "pattern"), `^(`+property+`|`+pattern[1:len(pattern)-1]+`)$`; got != want {
		t.Errorf("properties: got %v, want %s", got, want)
	}
	key := at(t, defs, "attribute", "anyOf").([]any)
	if got := sorted(texts(at(t, key[0], "enum").([]any))); !slices.Equal(got, plain) {
		t.Errorf("key: got %v, want %v", got, plain)
	}
	if got := at(t, key[1], "pattern"); got != pattern {
		t.Errorf("key: got %v, want %s", got, pattern)
	}
}

func texts(list []any) []string {
	made := make([]string, len(list))
	for i, v := range list {
		made[i] = fmt.Sprint(v)
	}
	return made
}

func TestSchemaHasEveryWordAndNoOther(t *testing.T) {
	rule := at(t, readSchema(t), "$defs", "rule", "properties")
	for field, want := range map[string][]string{
		"owner":          {rules.OwnerClient.String(), rules.OwnerShared.String()},
		"fallback":       words(rules.FallbackIP, rules.ParseFallback),
		"consistency":    words(rules.Exact, rules.ParseConsistency),
		"on_failure":     words(headgate.Open, rules.ParsePolicy),
		"unregistered":   words(rules.UnregisteredDefault, rules.ParseUnregistered),
		"case":           words(rules.StrictExact, rules.ParseStrictness),
		"trailing_slash": words(rules.StrictExact, rules.ParseStrictness),
		"status":         {"429", "503"},
	} {
		if got := texts(at(t, rule, field, "enum").([]any)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", field, got, want)
		}
	}
	onLimit := regexp.MustCompile(at(t, rule, "on_limit", "pattern").(string))
	for action := rules.Reject; !strings.HasPrefix(action.String(), "unknown"); action++ {
		o := rules.OnLimit{Action: action}
		if action == rules.Delay {
			o.MaxWait = 90 * time.Second
		}
		if !onLimit.MatchString(o.String()) {
			t.Errorf("on_limit: %s does not fit", o)
		}
	}
	limit := regexp.MustCompile(at(t, readSchema(t), "$defs", "limit", "pattern").(string))
	for _, algorithm := range headgate.Algorithms() {
		l := headgate.Limit{Algorithm: algorithm, Count: 10, Period: 1500 * time.Millisecond}
		switch algorithm {
		case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
			l.Burst = 20
		case headgate.FixedWindow:
			l.Staggered = true
		case headgate.SlidingBuckets:
			l.Buckets = 5
		case headgate.Concurrency:
			l.Period, l.TTL = 0, time.Second
		}
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		if !limit.MatchString(l.String()) {
			t.Errorf("limits: %s does not fit", l)
		}
	}
}

// words returns the texts of a type's values from one value on, as far as they can be parsed.
func words[T interface {
	~uint8
	String() string
}](first T, parse func(string) (T, error)) []string {
	var list []string
	for v := first; ; v++ {
		if _, err := parse(v.String()); err != nil {
			return list
		}
		list = append(list, v.String())
	}
}

func TestSchemaHasTheBoundsOfTheModel(t *testing.T) {
	root := readSchema(t)
	defs := at(t, root, "$defs").(schema)
	second := func(from any) any { return at(t, from, "oneOf").([]any)[1] }
	rule := at(t, defs, "rule", "properties")
	cost := second(defs["cost"])
	for _, tt := range []struct {
		name string
		got  any
		want int
	}{
		{"rules", at(t, second(at(t, root, "properties", "rules")), "maxItems"), rules.MaxRules},
		{"clients", at(t, second(at(t, root, "properties", "clients")), "maxItems"), rules.MaxClients},
		{"key", at(t, second(at(t, rule, "key")), "maxItems"), rules.MaxKey},
		{"overrides", at(t, second(at(t, rule, "overrides")), "maxItems"), rules.MaxOverrides},
		{"limits", at(t, second(defs["limits"]), "maxItems"), rules.MaxLimits},
		{"split", at(t, rule, "split", "maximum"), headgate.MaxSplit},
		{"priority", at(t, rule, "priority", "maximum"), rules.MaxPriority},
		{"priority", at(t, rule, "priority", "minimum"), -rules.MaxPriority},
		{"id", at(t, defs, "name", "maxLength"), rules.MaxName},
		{"client id", at(t, defs, "client", "properties", "id", "maxLength"), rules.MaxName},
		{"limit name", at(t, defs, "namedLimit", "properties", "name", "maxLength"), rules.MaxLimitName},
		{"description", at(t, defs, "description", "maxLength"), rules.MaxText},
		{"header", at(t, defs, "header", "maxLength"), headgate.MaxAttributeName},
		{"cost", at(t, at(t, defs, "cost", "oneOf").([]any)[0], "maximum"), headgate.MaxCount},
		{"cost.estimate", at(t, cost, "properties", "estimate", "maximum"), headgate.MaxCount},
		{"cost.min", at(t, cost, "properties", "min", "maximum"), headgate.MaxCount},
		{"cost.max", at(t, cost, "properties", "max", "maximum"), headgate.MaxCount},
	} {
		if tt.got != float64(tt.want) {
			t.Errorf("%s: got %v, want %d", tt.name, tt.got, tt.want)
		}
	}
}

// exempt are fields of the model without a name in a file: a short form is parsed into them.
var exempt = []string{"rules.Cost.Units", "rules.Limit.Limit", "rules.Condition.Tests", "rules.Condition.Any", "rules.Condition.All", "rules.Condition.Not", "rules.Client.Properties"}

func TestEveryFieldOfTheModelHasANameInAFile(t *testing.T) {
	for _, model := range []reflect.Type{
		reflect.TypeFor[rules.Rule](), reflect.TypeFor[rules.Override](), reflect.TypeFor[rules.Penalty](),
		reflect.TypeFor[rules.Client](), reflect.TypeFor[rules.ClientRule](), reflect.TypeFor[rules.Cost](), reflect.TypeFor[rules.Limit](),
	} {
		for f := range model.Fields() {
			if f.Tag.Get("field") == "" && !slices.Contains(exempt, model.String()+"."+f.Name) {
				t.Errorf("%s.%s has no tag", model, f.Name)
			}
		}
	}
}

func TestGoodFilesFitTheSchema(t *testing.T) {
	v := validator{root: readSchema(t)}
	for _, path := range files(t, "good") {
		doc, err := file.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := source.Read(path, read(t, path))
		if err != nil {
			t.Fatal(err)
		}
		if err := v.check(v.root, plainOf(f.Root), ""); err != nil {
			t.Errorf("%s does not fit the schema: %v", path, err)
		}
		if err := v.checkJSON(doc.JSON()); err != nil {
			t.Errorf("%s as we write it does not fit the schema: %v", path, err)
		}
	}
}

// Files with invalid syntax do not match the schema. Only match.Compile finds other problems.
func TestBadFilesDoNotFitTheSchema(t *testing.T) {
	v := validator{root: readSchema(t)}
	for _, name := range []string{
		"cost.yaml", "unknown-fields.yaml", "unknown-attributes.yaml", "types.yaml", "words.yaml", "limits.yaml", "ids.yaml", "unknown.json", "not-a-mapping.yaml",
	} {
		path := "testdata/bad/" + name
		f, err := source.Read(path, read(t, path))
		if err != nil {
			t.Fatal(err)
		}
		if v.check(v.root, plainOf(f.Root), "") == nil {
			t.Errorf("%s fits the schema", name)
		}
	}
}
