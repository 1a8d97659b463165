package config

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/identity/jwt"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/gateway"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/service/grpcapi"
	"github.com/headgate/headgate/server/service/httpapi"
)

const (
	docPath       = "../../../../../docs/config.md"
	referencePath = "../../../../../docs/reference/config.md"
	schemaPath    = "../../../../../docs/config.schema.json"
)

func readDoc(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// between checks the text between two marks of a page, or writes it with -update.
func between(t *testing.T, path, mark, want string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), "<!-- "+mark+" -->\n")
	got, after, ok2 := strings.Cut(rest, "<!-- /"+mark+" -->")
	if !ok || !ok2 {
		t.Fatalf("%s has no <!-- %s -->", path, mark)
	}
	if *update {
		text := before + "<!-- " + mark + " -->\n" + want + "<!-- /" + mark + " -->" + after
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s, %s: got\n%s\nwant (go test -update)\n%s", path, mark, got, want)
	}
}

func TestDocsListAllSettings(t *testing.T) {
	var b strings.Builder
	for _, s := range Settings() {
		value := "`" + s.Default + "`"
		if s.Default == "" {
			value = ""
		}
		meaning, _, _ := strings.Cut(s.Usage, ". ")
		row := "| `--" + s.Name + " " + strings.ReplaceAll(s.Arg, "|", "\\|") + "` | " + strings.ReplaceAll(meaning, "|", "\\|") + " | " + value + " |\n"
		b.WriteString(row)
	}
	between(t, docPath, "settings", b.String())
}

func TestDocsReferenceIsUpToDate(t *testing.T) {
	var b strings.Builder
	reference(&b, "", reflect.TypeFor[Config]())
	between(t, referencePath, "reference", strings.TrimPrefix(b.String(), "\n"))
}

// reference writes a table of the fields of a struct, then tables of the structs in it.
func reference(b *strings.Builder, path string, t reflect.Type) {
	title := "Top level"
	if path != "" {
		title = "`" + path + "`"
	}
	b.WriteString("\n## " + title + "\n\n| field | default | meaning |\n|---|---|---|\n")
	type section struct {
		path string
		of   reflect.Type
	}
	var below []section
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("field"), ",")
		if name == "" {
			continue
		}
		value := f.Tag.Get("default")
		if value != "" {
			value = "`" + value + "`"
		}
		b.WriteString("| `" + name + "` | " + value + " | " + strings.ReplaceAll(f.Tag.Get("doc"), "|", "\\|") + " |\n")
		of, list := f.Type, ""
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			if of.Kind() == reflect.Slice {
				list = "[]"
			}
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && len(source.Names(of)) > 0 {
			below = append(below, section{source.Join(path, name) + list, of})
		}
	}
	for _, s := range below {
		reference(b, s.path, s.of)
	}
}

func TestEveryFieldHasADescription(t *testing.T) {
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for f := range of.Fields() {
			if f.Tag.Get("field") != "" {
				if f.Tag.Get("doc") == "" {
					t.Errorf("%v.%s has no doc", of, f.Name)
				}
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
}

var yamlBlocks = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestExamplesInTheDocsAreValid(t *testing.T) {
	blocks := yamlBlocks.FindAllStringSubmatch(readDoc(t), -1)
	if len(blocks) < 2 {
		t.Fatalf("got %d examples", len(blocks))
	}
	for _, b := range blocks {
		c := defaults()
		c.origins = map[string]origin{}
		if err := c.parseFile("example.yaml", []byte(b[1])); err != nil {
			t.Errorf("%s\n%v", b[1], err)
			continue
		}
		if err := c.validate(); err != nil {
			t.Errorf("%s\n%v", b[1], err)
		}
		if c.GatewayAddr == Off && len(c.Gateway.Listeners) == 0 {
			continue
		}
		for i := range c.Gateway.Listeners {
			c.Gateway.Listeners[i].TLS = nil // its files are not here
		}
		if _, err := c.GatewayConfig("http://127.0.0.1:1"); err != nil {
			t.Errorf("%s\n%v", b[1], err)
		}
	}
}

func TestPublishedSchemaIsUpToDate(t *testing.T) {
	if *update {
		if err := os.WriteFile(schemaPath, Schema(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaPath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(Schema()) {
		t.Error("docs/config.schema.json is not what Schema returns: go test -update")
	}
	if !json.Valid(got) {
		t.Error("it is no JSON")
	}
}

func TestSchemaAcceptsTheFullFile(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := source.Read("full.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	if problem := fits(f.Root, schema, ""); problem != "" {
		t.Error(problem)
	}
	for _, text := range []string{
		"stor: x", "gateway: { max_conns: many }", "gateway: { header_timeout: 10 }", "memory: { max_bytes: lots }",
		"responses: { reset: x }", "identity: { user_from: x }", "gateway: { listeners: [{ adr: x }] }", "identity: { hops: x }",
	} {
		f, err := source.Read("bad.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if fits(f.Root, schema, "") == "" {
			t.Errorf("%s: the schema takes it", text)
		}
	}
}

// fits returns why a node does not match a schema. It knows the keywords that this package uses.
func fits(n *source.Node, schema map[string]any, path string) string {
	if alternatives, ok := schema["oneOf"].([]any); ok {
		why := ""
		for _, a := range alternatives {
			if why = fits(n, a.(map[string]any), path); why == "" {
				return ""
			}
		}
		return why
	}
	switch n.Kind {
	case source.Map:
		properties, _ := schema["properties"].(map[string]any)
		for _, f := range n.Fields {
			below, ok := properties[f.Name].(map[string]any)
			if !ok {
				return path + "." + f.Name + " is not in the schema"
			}
			if why := fits(f.Value, below, path+"."+f.Name); why != "" {
				return why
			}
		}
		return ""
	case source.List:
		items, ok := schema["items"].(map[string]any)
		if !ok {
			return path + " is no list in the schema"
		}
		for _, item := range n.Items {
			if why := fits(item, items, path+"[]"); why != "" {
				return why
			}
		}
		return ""
	}
	if words, ok := schema["enum"].([]any); ok {
		for _, w := range words {
			if text, _ := w.(string); text == n.Text {
				return ""
			}
		}
		return path + ": " + n.Text + " is not one of the schema's"
	}
	isNumber := !n.Quoted && regexp.MustCompile(`^-?[0-9]+$`).MatchString(n.Text)
	isBool := !n.Quoted && (n.Text == "true" || n.Text == "false")
	types, ok := schema["type"].([]any)
	if !ok {
		types = []any{schema["type"]}
	}
	for _, of := range types {
		switch {
		case of == "integer" && isNumber, of == "boolean" && isBool:
			return ""
		case of == "string" && !isBool && !isNumber:
			pattern, _ := schema["pattern"].(string)
			if pattern == "" || regexp.MustCompile(pattern).MatchString(n.Text) {
				return ""
			}
		}
	}
	return path + ": " + n.Text + " does not fit the schema"
}

func TestDocumentedDefaultsMatchPackages(t *testing.T) {
	codec := newCodec()
	for _, tt := range []struct {
		of    any
		field string
		want  any
	}{
		{Gateway{}, "HeaderTimeout", gateway.DefaultHeaderTimeout},
		{Gateway{}, "IdleTimeout", gateway.DefaultIdleTimeout},
		{Gateway{}, "BodyTimeout", gateway.DefaultBodyTimeout},
		{Gateway{}, "MinBodyRate", CountOrOff(gateway.DefaultMinBodyRate)},
		{Gateway{}, "WriteTimeout", gateway.DefaultWriteTimeout},
		{Gateway{}, "StreamTimeout", gateway.DefaultStreamTimeout},
		{Gateway{}, "MaxHeader", Size(gateway.DefaultMaxHeader)},
		{Gateway{}, "MaxConns", CountOrOff(gateway.DefaultMaxConns)},
		{Gateway{}, "MaxStreams", CountOrOff(gateway.DefaultMaxStreams)},
		{Gateway{}, "MaxUpgrades", CountOrOff(gateway.DefaultMaxUpgrades)},
		{Gateway{}, "RequestIDHeader", gateway.DefaultRequestID},
		{Gateway{}, "DrainLinger", gateway.DefaultDrainLinger},
		{Gateway{}, "UpgradeGrace", gateway.DefaultUpgradeGrace},
		{Gateway{}, "DrainTimeout", gateway.DefaultDrainTimeout},
		{TLS{}, "CheckFilesEvery", gateway.DefaultCheckFilesEvery},
		{Route{}, "DialTimeout", gateway.DefaultDialTimeout},
		{Route{}, "ResponseHeaderTimeout", gateway.DefaultResponseHeaderTimeout},
		{Route{}, "UpstreamIdle", gateway.DefaultUpstreamIdle},
		{Route{}, "UpstreamConns", CountOrOff(gateway.DefaultUpstreamConns)},
		{Route{}, "Retries", CountOrOff(gateway.DefaultRetries)},
		{Health{}, "Interval", gateway.DefaultHealthInterval},
		{Health{}, "Timeout", gateway.DefaultHealthTimeout},
		{Health{}, "Failures", CountOrOff(gateway.DefaultFailures)},
		{Health{}, "Successes", CountOrOff(gateway.DefaultSuccesses)},
		{Ejection{}, "After", CountOrOff(gateway.DefaultEjectAfter)},
		{Ejection{}, "For", gateway.DefaultEjectFor},
		{Ejection{}, "SlowReturn", DurationOrOff(gateway.DefaultSlowReturn)},
		{AccessLog{}, "Every", CountOrOff(gateway.DefaultLogEvery)},
		{AccessLog{}, "PerSecond", CountOrOff(gateway.DefaultLogPerSecond)},
		{AccessLog{}, "Queue", CountOrOff(gateway.DefaultLogQueue)},
		{Identity{}, "ForwardingHeader", identity.DefaultForwardingHeader},
		{Identity{}, "IPv4Prefix", identity.DefaultIPv4Prefix},
		{Identity{}, "IPv6Prefix", identity.DefaultIPv6Prefix},
		{Identity{}, "APIKeyHeader", identity.DefaultAPIKeyHeader},
		{Identity{}, "UserHeader", identity.DefaultUserHeader},
		{Identity{}, "MaxCookies", Size(identity.DefaultMaxCookies)},
		{Identity{}, "MaxQuery", Size(identity.DefaultMaxQuery)},
		{Identity{}, "MaxPath", Size(identity.DefaultMaxPath)},
		{JWT{}, "Leeway", jwt.DefaultLeeway},
		{JWT{}, "MaxToken", Size(jwt.DefaultMaxToken)},
		{JWT{}, "Refresh", jwt.DefaultRefresh},
		{JWT{}, "MaxStale", jwt.DefaultMaxStale},
		{Service{}, "MaxConns", service.DefaultMaxConns},
		{Service{}, "MaxBody", Size(httpapi.DefaultMaxBody)},
		{Service{}, "MaxBatch", httpapi.DefaultMaxBatch},
		{GRPC{}, "MaxStreams", grpcapi.DefaultMaxStreams},
		{GRPC{}, "CallTimeout", grpcapi.DefaultCallTimeout},
		{ServiceTLS{}, "CheckFilesEvery", service.DefaultCheckFilesEvery},
		{Memory{}, "MaxBytes", Size(memstore.DefaultMaxBytes)},
		{Redis{}, "Prefix", redisstore.DefaultPrefix},
		{Redis{}, "Deadline", guard.DefaultDeadline},
		{Redis{}, "DenyCache", DurationOrOff(guard.DefaultDenyCache)},
	} {
		of := reflect.TypeOf(tt.of)
		field, ok := of.FieldByName(tt.field)
		if !ok {
			t.Errorf("%v has no %s", of, tt.field)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("field"), ",")
		f, err := source.Read("default.yaml", []byte(name+": "+field.Tag.Get("default")+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		made := reflect.New(of)
		if found := codec.Decode(f, made.Interface()); len(found) > 0 {
			t.Errorf("%v.%s: %v", of, tt.field, found)
			continue
		}
		if got := made.Elem().FieldByName(tt.field).Interface(); got != tt.want {
			t.Errorf("%v.%s: got %v in its tag, want %v", of, tt.field, got, tt.want)
		}
	}
}
