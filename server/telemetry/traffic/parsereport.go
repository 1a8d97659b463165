package traffic

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// ParseReport parses a Report from JSON. A rules service parses the Reports of a whole fleet, so ParseReport has its
// own parser for the form that nodes write. It takes a tenth of the time of encoding/json, which ParseReport uses for
// any other form.
func ParseReport(data []byte) (*Report, error) {
	r := &Report{}
	p := reportParser{text: string(data), rules: map[string]string{}}
	if p.readReport(r) && p.at == len(p.text) {
		return r, nil
	}
	*r = Report{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, err
	}
	return r, nil
}

// A reportParser parses the JSON that json.Marshal writes for a Report: without white space, with the fields in order.
// Its methods return false if the text has another form.
type reportParser struct {
	text  string
	at    int
	rules map[string]string // copies of rule ids: a substring of text would keep the whole text in memory
}

// skip consumes a text if it is next.
func (p *reportParser) skip(text string) bool {
	if !strings.HasPrefix(p.text[p.at:], text) {
		return false
	}
	p.at += len(text)
	return true
}

// skipField consumes the name of a field of an object if it is next. first is true until the object has a field.
func (p *reportParser) skipField(name string, first *bool) bool {
	start := p.at
	if !*first && !p.skip(",") || !p.skip(`"`) || !p.skip(name) || !p.skip(`":`) {
		p.at = start
		return false
	}
	*first = false
	return true
}

// readText returns a string without escapes.
func (p *reportParser) readText() (text string, ok bool) {
	if !p.skip(`"`) {
		return "", false
	}
	start, ascii := p.at, true
	for i := start; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '"':
			text = p.text[start:i]
			p.at = i + 1
			// json.Marshal escapes U+2028 and U+2029, so a text that has them was not written by it.
			return text, ascii || utf8.ValidString(text) && !strings.ContainsAny(text, "\u2028\u2029")
		case c == '\\' || c < ' ':
			return "", false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", false
}

// readNumber returns an integer below 10¹⁸.
func (p *reportParser) readNumber() (n uint64, ok bool) {
	start := p.at
	for ; p.at < len(p.text) && p.at-start < 18; p.at++ {
		digit := p.text[p.at] - '0'
		if digit > 9 {
			break
		}
		n = 10*n + uint64(digit)
	}
	length := p.at - start
	if length == 0 || length > 1 && p.text[start] == '0' {
		return 0, false
	}
	return n, p.at < len(p.text) && (p.text[p.at] == ',' || p.text[p.at] == '}')
}

// readNumbers reads the numeric fields of an object. Each may be absent.
func (p *reportParser) readNumbers(first *bool, names []string, to ...*uint64) (ok bool) {
	for i, name := range names {
		if p.skipField(name, first) {
			if *to[i], ok = p.readNumber(); !ok {
				return false
			}
		}
	}
	return true
}

// readTime reads a field that is an int64, which may be absent.
func (p *reportParser) readTime(first *bool, name string, to *int64) bool {
	if !p.skipField(name, first) {
		return true
	}
	n, ok := p.readNumber()
	*to = int64(n)
	return ok
}

// readRule reads the id of a rule.
func (p *reportParser) readRule() (id string, ok bool) {
	if id, ok = p.readText(); !ok {
		return "", false
	}
	known, ok := p.rules[id]
	if !ok {
		known = strings.Clone(id)
		p.rules[known] = known
	}
	return known, true
}

// readList reads an array that is not empty by calling f for each element.
func (p *reportParser) readList(f func() bool) bool {
	if !p.skip("[") {
		return false
	}
	for f() {
		if p.skip("]") {
			return true
		}
		if !p.skip(",") {
			return false
		}
	}
	return false
}

func (p *reportParser) readReport(r *Report) bool {
	first := true
	if !p.skip("{") || !p.skipField("node", &first) {
		return false
	}
	node, ok := p.readText()
	r.Node = strings.Clone(node)
	if !ok || !p.readTime(&first, "started", &r.Started) || !p.skipField("seconds", &first) {
		return false
	}
	if !p.skip("null") && !p.readList(func() bool { return p.readSecond(r) }) || !p.readTime(&first, "minute", &r.Minute) {
		return false
	}
	if p.skipField("clients", &first) && !p.readList(func() bool { return p.readClient(r) }) {
		return false
	}
	if p.skipField("cursor", &first) {
		cursor, ok := p.readText()
		if !ok {
			return false
		}
		r.Cursor = strings.Clone(cursor)
	}
	return p.skip("}")
}

func (p *reportParser) readSecond(r *Report) bool {
	s, first := Second{}, true
	if !p.skip("{") || !p.readTime(&first, "unix", &s.Unix) || !p.skipField("rows", &first) {
		return false
	}
	if !p.skip("null") {
		if len(r.Seconds) > 0 {
			s.Rows = make([]Row, 0, len(r.Seconds[0].Rows))
		}
		if !p.readList(func() bool { return p.readRow(&s) }) {
			return false
		}
	}
	if !p.skip("}") {
		return false
	}
	r.Seconds = append(r.Seconds, s)
	return true
}

var rowFields = []string{"q", "d", "w", "s", "g", "c", "n", "t"}

func (p *reportParser) readRow(s *Second) bool {
	var row Row
	var ok bool
	first := true
	if !p.skip("{") {
		return false
	}
	if p.skipField("r", &first) {
		if row.Rule, ok = p.readRule(); !ok {
			return false
		}
	}
	pointers := row.pointers()
	if !p.readNumbers(&first, rowFields, pointers[:]...) || !p.skip("}") {
		return false
	}
	s.Rows = append(s.Rows, row)
	return true
}

var clientFields = []string{"requests", "allowed", "denied", "error"}

func (p *reportParser) readClient(r *Report) bool {
	var c ClientCount
	var ok bool
	first := true
	if !p.skip("{") || !p.skipField("client", &first) {
		return false
	}
	if c.Client, ok = p.readRawClient(); !ok || !p.skipField("rule", &first) {
		return false
	}
	if c.Rule, ok = p.readRule(); !ok {
		return false
	}
	if !p.readNumbers(&first, clientFields, &c.Requests, &c.Allowed, &c.Denied, &c.Error) {
		return false
	}
	if p.skipField("shadow", &first) {
		if c.Shadow = p.skip("true"); !c.Shadow {
			return false
		}
	}
	if !p.skip("}") {
		return false
	}
	r.Clients = append(r.Clients, c)
	return true
}

// readRawClient reads a client as NewClient writes it: its attributes are in order.
func (p *reportParser) readRawClient() (RawClient, bool) {
	start, last := p.at, ""
	if !p.skip("{") {
		return "", false
	}
	for n := 0; !p.skip("}"); n++ {
		if n > 0 && !p.skip(",") {
			return "", false
		}
		name, ok := p.readText()
		if !ok || n == maxAttributes || n > 0 && name <= last || !p.skip(":") {
			return "", false
		}
		if _, ok = p.readText(); !ok {
			return "", false
		}
		last = name
	}
	if p.at-start > maxClient {
		return "", false
	}
	return RawClient(strings.Clone(p.text[start:p.at])), true
}
