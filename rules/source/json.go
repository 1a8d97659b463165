package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"unicode/utf8"
)

// readJSON reads JSON. Whether it is any is for encoding/json to say; what is in it is taken out here, as a decoder of tokens would
// make thirty times as much garbage as the text is long, and nodes that have ten thousand rules to read feel that.
func readJSON(data []byte, a *arena) (*Node, *Problem) {
	if !json.Valid(data) {
		return nil, notJSON(data)
	}
	r := jsonReader{data: data, arena: a, line: 1}
	if len(data) <= keptWhole {
		r.text = string(data)
	}
	return r.value(0)
}

// keptWhole is up to how many bytes a text is kept as a whole by any part of it that is kept: one text is less to keep than its parts.
const keptWhole = 4 << 10

// notJSON says what is wrong with a text that is no JSON.
func notJSON(data []byte) *Problem {
	var whole json.RawMessage
	err := json.Unmarshal(data, &whole)
	p := &Problem{Value: "the file ends", Want: "valid JSON"}
	at := len(data)
	var wrong *json.SyntaxError
	if errors.As(err, &wrong) && wrong.Error() != "unexpected end of JSON input" {
		p.Value = wrong.Error()
		at = max(0, int(wrong.Offset)-1)
		if strings.HasSuffix(p.Value, "after top-level value") {
			p.Value, p.Want = "more after the end", "one value"
		}
	}
	p.Line, p.Column = position(data, at)
	return p
}

// A jsonReader takes apart what is known to be JSON.
type jsonReader struct {
	data         []byte
	text         string // the same, if parts of it may keep it
	arena        *arena
	next         int // what is to be read
	at           int // up to where line and column are counted
	lineBegin    int
	line, column int
}

// peek finds the next token, its line and its column, and returns its first byte.
func (r *jsonReader) peek() byte {
	for strings.IndexByte(" \t\r\n,:", r.data[r.next]) >= 0 {
		r.next++
	}
	skipped := r.data[r.at:r.next]
	r.line += bytes.Count(skipped, []byte{'\n'})
	if i := bytes.LastIndexByte(skipped, '\n'); i >= 0 {
		r.lineBegin = r.at + i + 1
		r.column = utf8.RuneCount(r.data[r.lineBegin:r.next]) + 1
	} else if r.at == 0 {
		r.column = utf8.RuneCount(skipped) + 1
	} else {
		r.column += utf8.RuneCount(skipped)
	}
	r.at = r.next
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
	var made string
	if err := json.Unmarshal(r.data[from:r.next], &made); err != nil {
		panic("source: a string in JSON is none: " + err.Error())
	}
	return made
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
	n := r.arena.node()
	n.Kind, n.Line, n.Column, n.size = Scalar, r.line, r.column, 1
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
	begin := len(r.arena.pendingItems)
	for r.peek() != ']' {
		item, p := r.value(depth + 1)
		if p != nil {
			return p
		}
		r.arena.pendingItems = append(r.arena.pendingItems, item)
		n.size += item.size
	}
	r.next++
	n.Items = r.arena.takeItems(begin)
	return nil
}

func (r *jsonReader) mapping(n *Node, depth int) *Problem {
	n.Kind = Map
	begin := len(r.arena.pendingFields)
	var names fieldNames
	for r.peek() != '}' {
		field := Field{Line: r.line, Column: r.column, Name: r.quoted()}
		before := r.arena.pendingFields[begin:]
		if names.add(before, field.Name) {
			return twice(field.Name, field.Line, field.Column)
		}
		if len(before) == MaxFields {
			return tooManyFields(field.Line, field.Column)
		}
		var p *Problem
		if field.Value, p = r.value(depth + 1); p != nil {
			return p
		}
		r.arena.pendingFields = append(r.arena.pendingFields, field)
		n.size += field.Value.size
	}
	r.next++
	n.Fields = r.arena.takeFields(begin)
	return nil
}

// An arena is where nodes live that are let go of together.
type arena struct {
	nodes         []Node
	fields        []Field
	items         []*Node
	pendingFields []Field // of mappings that have not ended
	pendingItems  []*Node // of lists that have not ended
}

// mostKept is for how many nodes an arena may have room that is used again.
const mostKept = 1 << 10

var arenas = sync.Pool{New: func() any { return new(arena) }}

// node returns a new node.
func (a *arena) node() *Node {
	if len(a.nodes) == cap(a.nodes) { // those that are there stay where they are
		a.nodes = make([]Node, 0, min(max(16, 2*cap(a.nodes)), mostKept))
	}
	a.nodes = append(a.nodes, Node{})
	return &a.nodes[len(a.nodes)-1]
}

func (a *arena) takeFields(begin int) []Field {
	from := len(a.fields)
	a.fields = append(a.fields, a.pendingFields[begin:]...)
	a.pendingFields = a.pendingFields[:begin]
	return a.fields[from:len(a.fields):len(a.fields)]
}

func (a *arena) takeItems(begin int) []*Node {
	from := len(a.items)
	a.items = append(a.items, a.pendingItems[begin:]...)
	a.pendingItems = a.pendingItems[:begin]
	return a.items[from:len(a.items):len(a.items)]
}

// release lets another file have it.
func (a *arena) release() {
	if cap(a.fields)+cap(a.items)+cap(a.pendingFields)+cap(a.pendingItems) > mostKept {
		return // it is the collector's: all of it would have to be cleared each time
	}
	clear(a.nodes)
	clear(a.fields)
	clear(a.items)
	clear(a.pendingFields[:cap(a.pendingFields)])
	clear(a.pendingItems[:cap(a.pendingItems)])
	a.nodes, a.fields, a.items, a.pendingFields, a.pendingItems = a.nodes[:0], a.fields[:0], a.items[:0], a.pendingFields[:0], a.pendingItems[:0]
	arenas.Put(a)
}
