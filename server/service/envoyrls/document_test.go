package envoyrls_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/service/envoyrls"
)

// Each case is refused with its position and a hint.
var refused = []struct{ name, text, want string }{
	{"an unknown key", "domain: a\ndescriptors:\n- {key: k, rate_limits: {}}\n", "f.yaml:3:12: descriptors[0].rate_limits: unknown field: want rate_limit"},
	{"an unknown key of a limit", "domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, request_per_unit: 1}\n", "f.yaml:4:27: descriptors[0].rate_limit.request_per_unit: unknown field: want requests_per_unit"},
	{"an unknown key without a value", "domain: a\nfoo:\n", "f.yaml:2:1: foo: unknown field"},
	{"no domain", "descriptors: []\n", "domain: want a name"},
	{"an empty domain", "domain: \"\"\n", "f.yaml:1:9: domain: want a name"},
	{"nothing", "", "want a mapping"},
	{"a list", "- domain: a\n", "want a mapping"},
	{"an empty key", "domain: a\ndescriptors:\n- value: x\n", "f.yaml:3:3: descriptors[0].key: want the key"},
	{"an empty key below", "domain: a\ndescriptors:\n- key: a\n  descriptors:\n  - key: \"\"\n", "f.yaml:5:10: descriptors[0].descriptors[0].key: want the key"},
	{"a key and value twice", "domain: a\ndescriptors:\n- {key: k, value: v}\n- {key: k}\n- {key: k, value: v}\n", "f.yaml:5:3: descriptors[2]: a second k_v: want each key and value once in a list; line 3 has the same"},
	{"a key twice", "domain: a\ndescriptors:\n- {key: k}\n- {key: k}\n", "descriptors[1]: a second k: "},
	{"unlimited with a unit", "domain: a\ndescriptors:\n- {key: k, rate_limit: {unlimited: true, unit: day}}\n", "descriptors[0].rate_limit.unit: day: want no unit with unlimited"},
	{"no unit", "domain: a\ndescriptors:\n- {key: k, rate_limit: {requests_per_unit: 5}}\n", "descriptors[0].rate_limit.unit: want second, minute, hour"},
	{"another unit", "domain: a\ndescriptors:\n- {key: k, rate_limit: {unit: fortnight, requests_per_unit: 5}}\n", `descriptors[0].rate_limit.unit: unit "fortnight": want second, minute, hour, day, week, month or year`},
	{"the unit unknown", "domain: a\ndescriptors:\n- {key: k, rate_limit: {unit: unknown, requests_per_unit: 5}}\n", `unit "unknown": want second`},
	{"a negative number", "domain: a\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: -1}}\n", "requests_per_unit: -1: want 0 to 4294967295"},
	{"a number that is too large", "domain: a\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 4294967296}}\n", "requests_per_unit: 4294967296: want 0 to 4294967295"},
	{"no number", "domain: a\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: many}}\n", `requests_per_unit: "many": want a whole number`},
	{"an empty replaces", "domain: a\ndescriptors:\n- {key: k, rate_limit: {unit: day, replaces: [{name: \"\"}]}}\n", "replaces[0].name: want the name of another limit"},
	{"a replaces of itself", "domain: a\ndescriptors:\n- {key: k, rate_limit: {unit: day, name: x, replaces: [{name: x}]}}\n", `replaces[0].name: "x": want the name of another limit, not of this one`},
	{"share_threshold without a star", "domain: a\ndescriptors:\n- {key: k, value: v, share_threshold: true}\n", "share_threshold: true: want a key or value that contains *"},
	{"share_threshold without a value", "domain: a\ndescriptors:\n- {key: k, share_threshold: true}\n", "share_threshold: true: want a key or value that contains *"},
	{"a bool that is none", "domain: a\ndescriptors:\n- {key: k, shadow_mode: maybe}\n", `shadow_mode: value "maybe": want true or false`},
	{"a limit and a unit", "domain: a\ndescriptors:\n- {key: k, rate_limit: {unit: day, limit: 1/s}}\n", "limit: 1/s: want either this or unit and requests_per_unit"},
	{"a limit and unlimited", "domain: a\ndescriptors:\n- {key: k, rate_limit: {unlimited: true, limit: 1/s}}\n", "unlimited: true: want either this or limit"},
	{"a limit in both places", "domain: a\ndescriptors:\n- {key: k, limit: 1/s, rate_limit: {limit: 1/s}}\n", "limit: 1/s: want either this or rate_limit"},
	{"a limit that is none", "domain: a\ndescriptors:\n- {key: k, limit: ten}\n", "descriptors[0].limit: "},
	{"a limit of what is in flight", "domain: a\ndescriptors:\n- {key: k, limit: 5 concurrent}\n", "Envoy does not report when a request ends"},
	{"one descriptor for a list", "domain: a\ndescriptors: {key: k}\n", "descriptors: a mapping: want a list of descriptors"},
	{"a text for a descriptor", "domain: a\ndescriptors: [k]\n", "descriptors[0]: a value: want a descriptor"},
	{"metadata that is a text", "domain: a\ndescriptors:\n- {key: k, metadata: x}\n", "metadata: a value: want a mapping"},
	{"a name twice", "domain: a\ndomain: b\n", "each name once"},
	{"no YAML", "domain: [a\n", "f.yaml:"},
}

func TestErrorsNameTheirPosition(t *testing.T) {
	t.Parallel()
	for _, c := range refused {
		_, err := envoyrls.Parse("f.yaml", []byte(c.text))
		var located *source.Error
		switch {
		case err == nil:
			t.Errorf("%s: got no error, want %q", c.name, c.want)
		case !strings.Contains(err.Error(), c.want):
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		case !errors.As(err, &located):
			t.Errorf("%s: got a %T, want a *source.Error", c.name, err)
		case !errors.Is(err, envoyrls.ErrInvalid) && !errors.Is(err, source.ErrSyntax):
			t.Errorf("%s: got an error of no kind: %v", c.name, err)
		}
	}
}

func TestErrorListsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := envoyrls.Parse("f.yaml", []byte("descriptors:\n- {kee: k}\n- {key: a, rate_limit: {unit: day, requests_per_unit: x}}\n- {key: b, share_threshold: true}\n"))
	var located *source.Error
	if !errors.As(err, &located) || len(located.Problems) != 5 {
		t.Fatalf("got %v, want 5 problems", err) // the domain, kee, no key, x, share_threshold
	}
}

func TestNullFieldsCountAsAbsent(t *testing.T) {
	t.Parallel()
	doc, err := envoyrls.Parse("f.yaml", []byte("domain: a\ndescriptors:\n- key: k\n  value:\n  rate_limit:\n  descriptors:\n- key: 7\n  value: 1.50\n  shadow_mode: Yes\n"))
	if err != nil {
		t.Fatal(err)
	}
	if d := doc.Descriptors[0]; d.Value != "" || d.RateLimit != nil || d.Descriptors != nil {
		t.Errorf("got %+v, want only a key", d)
	}
	if d := doc.Descriptors[1]; d.Key != "7" || d.Value != "1.50" || !d.ShadowMode {
		t.Errorf("got %+v, want 7 and 1.50 as they are written, in shadow mode", d)
	}
}

// Such files have a document marker, anchors, merges and quoted numbers.
func TestParseReadsFilesOfEnvoyRatelimit(t *testing.T) {
	t.Parallel()
	doc, err := envoyrls.Parse("f.yaml", []byte(`---
# of the shop
domain: "shop"
descriptors:
  - key: plan
    value: "1"
    rate_limit: &small
      unit: MINUTE
      requests_per_unit: 4
      name: small
  - key: plan
    value: 2
    rate_limit:
      <<: *small
      requests_per_unit: 8
      name: large
      replaces:
        - name: small
    descriptors:
      - key: path
        value: '/a*'
        share_threshold: true
        rate_limit: *small
`))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%s %s", doc.Domain, doc.Descriptors[0].Value)
	for _, d := range []envoyrls.Descriptor{doc.Descriptors[0], doc.Descriptors[1], doc.Descriptors[1].Descriptors[0]} {
		got += fmt.Sprintf(" | %s %d/%s %s %v", d.Value, d.RateLimit.RequestsPerUnit, d.RateLimit.Unit, d.RateLimit.Name, d.RateLimit.Replaces)
	}
	if want := "shop 1 | 1 4/minute small [] | 2 8/minute large [{small}] | /a* 4/minute small []"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDomainInTwoFilesIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", "domain: one\n")
	write(t, dir, "b.yml", "# again\ndomain: one\n")
	_, err := envoyrls.New(envoyrls.Config{Path: dir, Store: newSmallStore(t), Logger: quiet})
	if want := "b.yml:2:9: domain: \"one\": want each domain in one file, or merge_domains: true; " + filepath.Join(dir, "a.yaml") + ":1 has the same domain"; err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v\nwant %s", err, want)
	}
	if !errors.Is(err, envoyrls.ErrInvalid) {
		t.Errorf("got %v, want an ErrInvalid", err)
	}
}

func TestLoadReadsConfigurationFilesOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.YML", "c.json", ".hidden.yaml", "README.md", "d.yaml~"} {
		text := "domain: " + name + "\n"
		if name == "c.json" {
			text = `{"domain": "c.json", "descriptors": [{"key": "k"}]}`
		}
		write(t, dir, name, text)
	}
	if err := os.MkdirAll(filepath.Join(dir, "below.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "below.yaml"), "e.yaml", "domain: below\n")
	docs, err := envoyrls.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range docs {
		got = append(got, d.Domain)
	}
	if want := "a.yaml b.YML c.json"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	docs, err = envoyrls.Load(filepath.Join(dir, "d.yaml~"))
	if err != nil || len(docs) != 1 {
		t.Errorf("one file by its name: got %v, %v", docs, err)
	}
	if _, err := envoyrls.Load(filepath.Join(dir, "gone")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a path that leads nowhere: got %v", err)
	}
}

// FuzzParse checks that every file is either refused with problems or used.
func FuzzParse(f *testing.F) {
	for _, c := range refused {
		f.Add([]byte(c.text))
	}
	cases, err := filepath.Glob("testdata/cases/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range cases {
		for _, text := range configurations(f, path) {
			f.Add([]byte(text))
		}
	}
	f.Add([]byte("domain: &a x\ndescriptors: &d\n- {key: *a, descriptors: [{key: y, limit: 5/m sliding-log}]}\n"))
	f.Add([]byte(`{"domain":"j","descriptors":[{"key":"k","value":"*","share_threshold":true,"metadata":{"a":[null,1e400,"x"]},"rate_limit":{"unit":"WEEK"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := envoyrls.Parse("f.yaml", data)
		if err != nil {
			var located *source.Error
			if !errors.As(err, &located) || len(located.Problems) == 0 || err.Error() == "" {
				t.Fatalf("an error without problems: %v", err)
			}
			return
		}
		if doc.Domain == "" {
			t.Fatal("read, but there is no domain")
		}
		if err := envoyrls.Probe(doc); err != nil {
			t.Fatalf("read, but: %v", err)
		}
	})
}

// configurations returns those of a file of cases.
func configurations(f *testing.F, path string) []string {
	f.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	var list []string
	var text strings.Builder
	in := false
	for line := range strings.Lines(string(data)) {
		switch {
		case strings.HasPrefix(line, "configuration"):
			in = true
		case in && !strings.HasPrefix(line, "  "):
			list = append(list, text.String())
			text.Reset()
			in = false
		case in:
			text.WriteString(line)
		}
	}
	return list
}
