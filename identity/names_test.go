package identity

import (
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
)

func TestNamesContainAllThatHaveValues(t *testing.T) {
	id := newID(t, Config{})
	var a Attributes
	id.Read(request("192.0.2.1:5", "/a?one=1&t%77o=2&th+ree=3&=4&five;six=5&%zz=6", "X-Plan: gold", "Authorization: Bearer abc",
		"Cookie: c=1; d=2", "Cookie: e=3", "Host: example.com"), &a)
	for kind, want := range map[headgate.AttributeKind]string{
		headgate.AttrHeader: "authorization cookie host x-plan",
		headgate.AttrCookie: "c d e",
		headgate.AttrQuery:  "one th_ree two",
	} {
		names, ok := a.AppendNames([]string{"first"}, kind)
		if !ok || names[0] != "first" {
			t.Fatalf("AppendNames(%v) = %q, %v, want names after the first", kind, names, ok)
		}
		var got []string
		for _, name := range names[1:] {
			lower := name
			if kind == headgate.AttrHeader {
				lower = strings.ToLower(name)
				if name != lower && name != textproto.CanonicalMIMEHeaderKey(name) {
					t.Errorf("%q is neither in lower case nor canonical", name)
				}
			}
			if _, ok := a.Get(headgate.Attribute{Kind: kind, Name: lower}); ok && lower != "" {
				got = append(got, strings.ReplaceAll(lower, " ", "_"))
			}
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != want {
			t.Errorf("names of kind %v with values: got %q, want %q", kind, text, want)
		}
	}
	if _, ok := a.AppendNames(nil, headgate.AttrJWT); ok {
		t.Error("the names of claims are known, want unknown")
	}
}

func TestNamesOfGivenValues(t *testing.T) {
	id := newID(t, Config{})
	var a Attributes
	if err := id.ReadValues(Values{
		Attributes:  map[string]string{"header.x-plan": "gold", "cookie.c": "1"},
		Descriptors: []DescriptorEntry{{"k", "v"}},
	}, &a); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[headgate.AttributeKind]string{
		headgate.AttrHeader: "x-plan", headgate.AttrCookie: "c", headgate.AttrDescriptor: "k", headgate.AttrQuery: "",
	} {
		if got, ok := a.AppendNames(nil, kind); !ok || strings.Join(got, " ") != want {
			t.Errorf("names of kind %v: got %q, %v, want %q", kind, got, ok, want)
		}
	}
}
