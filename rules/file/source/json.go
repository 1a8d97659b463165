package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// readJSON parses JSON. It checks the syntax with encoding/json, but extracts the values itself: json.Decoder.Token
// allocates thirty times the size of the text, which is too much for ten thousand rules.
func readJSON(data []byte) (*Node, *Problem) {
	if !json.Valid(data) {
		return nil, notJSON(data)
	}
	r := jsonReader{data: data, line: 1}
	if len(data) <= maxShared {
		r.text = string(data)
	}
	return r.value(0)
}

// maxShared is the maximum length in bytes of a text whose values are substrings of it. For a short text, one string
// takes less memory than a string for each value.
const maxShared = 4 << 10

// notJSON returns the syntax error in a text that is not valid JSON.
func notJSON(data []byte) *Problem {
	var value json.RawMessage
	err := json.Unmarshal(data, &value)
	p := &Problem{Value: "the file ends", Want: "valid JSON"}
	at := len(data)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Error() != "unexpected end of JSON input" {
		p.Value = syntax.Error()
		at = max(0, int(syntax.Offset)-1)
		if strings.HasSuffix(p.Value, "after top-level value") {
			p.Value, p.Want = "text after the value", "one value"
		}
	}
	p.Line, p.Column = position(data, at)
	return p
}

// A jsonReader extracts nodes from valid JSON.
type jsonReader struct {
	data         []byte
	text         string // data as a string if values are substrings of it, otherwise ""
	next         int    // offset of the next byte
	positionAt   int    // the offset whose position is line and column
	lineBegin    int    // offset of the first byte of the line
	line, column int
}

// peek skips to the next token, updates line and column, and returns the first byte of the token.
func (r *jsonReader) peek() byte {
	for strings.IndexByte(" \t\r\n,:", r.data[r.next]) >= 0 {
		r.next++
	}
	skipped := r.data[r.positionAt:r.next]
	r.line += bytes.Count(skipped, []byte{'\n'})
	if i := bytes.LastIndexByte(skipped, '\n'); i >= 0 {
		r.lineBegin = r.positionAt + i + 1
		r.column = utf8.RuneCount(r.data[r.lineBegin:r.next]) + 1
	} else if r.positionAt == 0 {
		r.column = utf8.RuneCount(skipped) + 1
	} else {
		r.column += utf8.RuneCount(skipped)
	}
	r.positionAt = r.next
	return r.data[r.next]
}

// part returns a part of the text.
func (r *jsonReader) part(from, to int) string {
	if r.text != "" {
		return r.text[from:to]
	}
	return string(r.data[from:to])
}

// quoted reads a string.
func (r *jsonReader) quoted() string {
	from := r.next
	escaped := false
	for r.next++; r.data[r.next] != '"'; r.next++ {
		if r.data[r.next] == '\\' {
			escaped = true
			r.next++
		}
	}
	r.next++
	if !escaped {
		return r.part(from+1, r.next-1)
	}
	var text string
	if err := json.Unmarshal(r.data[from:r.next], &text); err != nil {
		panic("source: an invalid string in valid JSON: " + err.Error())
	}
	return text
}

// word reads a number, true, false or null.
func (r *jsonReader) word() string {
	from := r.next
	for r.next < len(r.data) && strings.IndexByte(" \t\r\n,]}", r.data[r.next]) < 0 {
		r.next++
	}
	return r.part(from, r.next)
}

func (r *jsonReader) value(depth int) (*Node, *Problem) {
	first := r.peek()
	n := &Node{Kind: Scalar, Line: r.line, Column: r.column, size: 1}
	switch first {
	case '"':
		n.Text, n.Quoted = r.quoted(), true
	case '[', '{':
		if depth == MaxDepth {
			return nil, tooDeep(n.Line, n.Column)
		}
		r.next++
		if first == '[' {
			return n, r.list(n, depth)
		}
		return n, r.mapping(n, depth)
	default:
		if n.Text = r.word(); n.Text == "null" {
			n.Kind, n.Text = Null, ""
		}
	}
	return n, nil
}

func (r *jsonReader) list(n *Node, depth int) *Problem {
	n.Kind = List
	for r.peek() != ']' {
		item, p := r.value(depth + 1)
		if p != nil {
			return p
		}
		n.Items = append(n.Items, item)
		n.size += item.size
	}
	r.next++
	return nil
}

func (r *jsonReader) mapping(n *Node, depth int) *Problem {
	n.Kind = Map
	var names fieldNames
	for r.peek() != '}' {
		field := Field{Line: r.line, Column: r.column, Name: r.quoted()}
		if names.add(n.Fields, field.Name) {
			return duplicateName(field.Name, field.Line, field.Column)
		}
		if len(n.Fields) == MaxFields {
			return tooManyFields(field.Line, field.Column)
		}
		var p *Problem
		if field.Value, p = r.value(depth + 1); p != nil {
			return p
		}
		n.Fields = append(n.Fields, field)
		n.size += field.Value.size
	}
	r.next++
	return nil
}
