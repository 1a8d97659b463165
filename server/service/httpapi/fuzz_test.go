package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
)

// plain is a request as the slow reader returns it.
type plain struct {
	rule, user, ip, key string
	cost                int64
	hasCost             bool
	attributes          []attribute
}

var errShape = errors.New("not the shape")

// A slowReader reads the same by encoding/json, token by token.
type slowReader struct{ *json.Decoder }

func (r slowReader) object(member func(name string) error) error {
	t, err := r.Token()
	if err != nil {
		return err
	}
	if t == nil {
		return nil
	}
	if t != json.Delim('{') {
		return errShape
	}
	seen := make(map[string]bool)
	for r.More() {
		t, err := r.Token()
		if err != nil {
			return err
		}
		name, ok := t.(string)
		if !ok || seen[name] {
			return errShape
		}
		seen[name] = true
		if err := member(name); err != nil {
			return err
		}
	}
	_, err = r.Token()
	return err
}

func (r slowReader) text(into *string) error {
	t, err := r.Token()
	if err != nil {
		return err
	}
	s, ok := t.(string)
	if !ok && t != nil {
		return errShape
	}
	*into = s
	return nil
}

func (r slowReader) request(p *plain) error {
	start := r.InputOffset()
	err := r.object(func(name string) error {
		switch name {
		case "ruleId":
			return r.text(&p.rule)
		case "client":
			return r.object(func(name string) error {
				switch name {
				case "userId":
					return r.text(&p.user)
				case "clientIP":
					return r.text(&p.ip)
				case "apiKey":
					return r.text(&p.key)
				}
				return errShape
			})
		case "attributes":
			return r.object(func(name string) error {
				if len(p.attributes) == identity.MaxAttributes {
					return errShape
				}
				p.attributes = append(p.attributes, attribute{name: name})
				return r.text(&p.attributes[len(p.attributes)-1].value)
			})
		case "cost":
			t, err := r.Token()
			if err != nil || t == nil {
				return err
			}
			n, ok := t.(json.Number)
			if !ok {
				return errShape
			}
			p.hasCost = true
			if p.cost, err = strconv.ParseInt(n.String(), 10, 64); err != nil || p.cost < 0 || p.cost > headgate.MaxCount || n.String() == "-0" {
				return errShape
			}
			return nil
		}
		return errShape
	})
	if err == nil && r.InputOffset()-start < 2 {
		return errShape
	}
	return err
}

func slowRead(text string) (p plain, err error) {
	if !json.Valid([]byte(text)) {
		return p, errShape
	}
	if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "null") {
		return p, errShape // only fields of a request may be null
	}
	r := slowReader{json.NewDecoder(strings.NewReader(text))}
	r.UseNumber()
	if err := r.request(&p); err != nil {
		return p, err
	}
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return p, errShape
	}
	return p, nil
}

// The fast reader accepts and returns the same as encoding/json.
func FuzzReadRequest(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `null`, `[]`, `{"ruleId":"a","client":{"userId":"u","clientIP":"192.0.2.1","apiKey":"k"},"attributes":{"path":"/a"},"cost":3}`,
		`{"ruleId":null,"client":null,"attributes":null,"cost":null}`, `{"cost":0}`, `{"cost":-0}`, `{"cost":01}`, `{"cost":1e3}`, `{"cost":1099511627777}`,
		`{"ruleId":"é\u00e9\n\"\\\/\ud83d\ude00"}`, `{"ruleId":"\ud800"}`, "{\"ruleId\":\"\xff\"}", `{"ruleId":"a"} x`, `{"ruleId":"a",}`, `{,}`,
		`{"ruleId" "a"}`, `{"attributes":{"a":"1","a":"2"}}`, `{"attributes":{"a":{}}}`, "{\"ruleId\":\"\x01\"}", `{"client":{"userId":1}}`, `{"cost"`, `{"\u0063ost":1}`,
		"\ufeff{}", `nul`, `{"ruleId":nul}`, `{"ruleId":nullx}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := &apiCall{text: text}
		err := c.readOne()
		want, wantErr := slowRead(text)
		if err != nil {
			var at *jsonError
			if !errors.As(err, &at) || at.pos < 0 || at.pos > len(text) {
				t.Fatalf("%q: got %#v, want an error with a place in the text", text, err)
			}
			if line, column := position(text, at.pos); line < 1 || column < 1 {
				t.Fatalf("%q: got %d:%d", text, line, column)
			}
			// encoding/json repairs invalid Unicode, and this reader refuses it.
			if wantErr == nil && utf8.ValidString(text) && !strings.Contains(text, `\u`) {
				t.Fatalf("%q: got %v, want %+v", text, err, want)
			}
			return
		}
		if wantErr != nil {
			t.Fatalf("%q: got %+v, want an error", text, c.requests[0])
		}
		q := &c.requests[0]
		got := plain{q.rule, q.user, q.ip, q.key, q.cost, q.present&hasCost != 0, c.attributes[q.from:q.to]}
		if len(got.attributes) == 0 {
			got.attributes = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q:\n got %+v\nwant %+v", text, got, want)
		}
		// A batch of the request twice has two requests.
		b := &apiCall{text: "[" + text + "," + text + "]"}
		if err := b.readBatch(2); err != nil || len(b.requests) != 2 || b.requests[1].rule != q.rule {
			t.Fatalf("%q twice: got %+v, %v", text, b.requests, err)
		}
		if err := b.readBatch(1); err == nil {
			t.Fatalf("%q twice: got no error, want at most one", text)
		}
	})
}

// appendTime formats like package time.
func FuzzAppendTime(f *testing.F) {
	for _, ms := range []int64{0, 1, 999, 1767225600000, 253402300799999, -62135596800000, -1} {
		f.Add(ms)
	}
	f.Fuzz(func(t *testing.T, ms int64) {
		at := time.UnixMilli(ms)
		want := at.UTC().Format("2006-01-02T15:04:05.000Z")
		if got := string(appendTime(nil, at)); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

// encoding/json reads back the same string.
func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{"", "a", "é\n\t\"\\</script>\x7f\x00", "\xff\xfe", "😀"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b := appendString(nil, text)
		var got string
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		want := string([]rune(text)) // each byte that is not UTF-8 becomes a replacement character
		if got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}
