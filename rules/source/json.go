package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// readJSON reads JSON.
func readJSON(data []byte) (*Node, *Problem) {
	r := jsonReader{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.decoder.UseNumber()
	root, p := r.value(0)
	if p != nil {
		return nil, p
	}
	r.mark()
	if _, err := r.decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, &Problem{Value: "more after the end", Want: "one value", Line: r.line, Column: r.column}
	}
	return root, nil
}

type jsonReader struct {
	data         []byte
	decoder      *json.Decoder
	at           int // up to where line and column are counted
	lineBegin    int
	line, column int
}

// mark finds the line and column of the next token.
func (r *jsonReader) mark() {
	next := int(r.decoder.InputOffset())
	for next < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[next]) >= 0 {
		next++
	}
	skipped := r.data[r.at:next]
	r.line += bytes.Count(skipped, []byte{'\n'})
	if i := bytes.LastIndexByte(skipped, '\n'); i >= 0 {
		r.lineBegin = r.at + i + 1
		r.column = utf8.RuneCount(r.data[r.lineBegin:next]) + 1
	} else if r.at == 0 {
		r.column = utf8.RuneCount(skipped) + 1
	} else {
		r.column += utf8.RuneCount(skipped)
	}
	r.at = next
}

func (r *jsonReader) token() (json.Token, *Problem) {
	r.mark()
	token, err := r.decoder.Token()
	if err == nil {
		return token, nil
	}
	p := &Problem{Value: err.Error(), Want: "valid JSON", Line: r.line, Column: r.column}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		p.Value = "the file ends"
	}
	return nil, p
}

func (r *jsonReader) value(depth int) (*Node, *Problem) {
	token, p := r.token()
	if p != nil {
		return nil, p
	}
	n := &Node{Kind: Scalar, Line: r.line, Column: r.column, size: 1}
	switch t := token.(type) {
	case nil:
		n.Kind = Null
	case string:
		n.Text, n.Quoted = t, true
	case json.Number:
		n.Text = t.String()
	case bool:
		n.Text = "false"
		if t {
			n.Text = "true"
		}
	case json.Delim:
		if depth == MaxDepth {
			return nil, tooDeep(n.Line, n.Column)
		}
		if t == '[' {
			return n, r.list(n, depth)
		}
		return n, r.mapping(n, depth)
	}
	return n, nil
}

func (r *jsonReader) list(n *Node, depth int) *Problem {
	n.Kind = List
	for r.decoder.More() {
		item, p := r.value(depth + 1)
		if p != nil {
			return p
		}
		n.Items = append(n.Items, item)
		n.size += item.size
	}
	_, p := r.token()
	return p
}

func (r *jsonReader) mapping(n *Node, depth int) *Problem {
	n.Kind = Map
	var names fieldNames
	for r.decoder.More() {
		token, p := r.token()
		if p != nil {
			return p
		}
		field := Field{Line: r.line, Column: r.column}
		field.Name, _ = token.(string)
		if names.add(n.Fields, field.Name) {
			return twice(field.Name, field.Line, field.Column)
		}
		if len(n.Fields) == MaxFields {
			return tooManyFields(field.Line, field.Column)
		}
		if field.Value, p = r.value(depth + 1); p != nil {
			return p
		}
		n.Fields = append(n.Fields, field)
		n.size += field.Value.size
	}
	_, p := r.token()
	return p
}
