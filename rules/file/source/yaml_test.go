package source

import (
	"slices"
	"testing"
)

// A colon within a value is part of it in any list: addresses and URLs contain colons.
func TestColonsWithinValuesOfAList(t *testing.T) {
	for _, list := range []string{
		`[http://a:80, "http://b:80", 2001:db8::/32, ::1, 10.0.0.0/8, 12:30:05, x]`,
		"[ http://a:80 , 'http://b:80',\n  2001:db8::/32, ::1, 10.0.0.0/8,\n  12:30:05, x ]",
	} {
		for _, text := range []string{"v: " + list, "{ v: " + list + " }", "{ u: { v: [[" + list + "]] } }", "- { k: ä, v: " + list + " }"} {
			f, err := Read("x.yaml", []byte(text))
			if err != nil {
				t.Errorf("%s\n%v", text, err)
				continue
			}
			n := f.Root
			for n.Kind != List || len(n.Items) == 1 {
				if n.Kind == List {
					n = n.Items[0]
				} else {
					n = n.Fields[len(n.Fields)-1].Value
				}
			}
			var got []string
			for _, item := range n.Items {
				got = append(got, item.Text)
			}
			want := []string{"http://a:80", "http://b:80", "2001:db8::/32", "::1", "10.0.0.0/8", "12:30:05", "x"}
			if !slices.Equal(got, want) {
				t.Errorf("%s\n got %q\nwant %q", text, got, want)
			}
		}
	}
}

// A colon in front of a space or behind quotes is not.
func TestColonsBetweenNamesAndValues(t *testing.T) {
	for _, text := range []string{"{ v: [a: b, c] }", `{ v: ["a":b, c] }`, "v: [{a: b}, c]", "{ v: [{ a: b }, c] }", "{ v: [{a: b}, c] }"} {
		f, err := Read("x.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s\n%v", text, err)
			continue
		}
		v := f.Root.Fields[0].Value
		if v.Kind != List || len(v.Items) != 2 || v.Items[0].Kind != Map || v.Items[0].Fields[0].Name != "a" || v.Items[0].Fields[0].Value.Text != "b" || v.Items[1].Text != "c" {
			t.Errorf("%s: got %+v, want a: b, and c", text, v)
		}
	}
}
