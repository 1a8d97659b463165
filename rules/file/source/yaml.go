package source

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// readYAML parses YAML.
func readYAML(data []byte) (root *Node, p *Problem) {
	defer func() {
		if fault := recover(); fault != nil { // the third-party parser has panicked
			root, p = nil, &Problem{Value: fmt.Sprint(fault), Want: "valid YAML"}
		}
	}()
	tokens := joinPlain(lexer.Tokenize(string(data)))
	if p := checkNesting(tokens); p != nil {
		return nil, p
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxProblem(err)
	}
	r := yamlReader{anchors: map[string]*Node{}}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			line, column := positionOf(doc.Body)
			return nil, &Problem{
				Value: "a second document", Want: "one document", Line: line, Column: column,
			}
		}
		if root, p = r.node(doc.Body, 0); p != nil {
			return nil, p
		}
	}
	return root, nil
}

// joinPlain joins scalars with colons that the lexer splits in a list in brackets, such as [http://a:80]. In such a
// list, a colon separates a name from its value only if a space or a bracket follows.
func joinPlain(tokens token.Tokens) token.Tokens {
	var openBrackets []token.Type
	joined := tokens[:0:0]
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			openBrackets = append(openBrackets, t.Type)
		case token.MappingEndType, token.SequenceEndType:
			openBrackets = openBrackets[:max(len(openBrackets)-1, 0)]
		case token.MappingValueType:
			n := len(openBrackets)
			if n == 0 || openBrackets[n-1] != token.SequenceStartType || i+1 == len(tokens) {
				break // outside a list, {a:1} is a mapping
			}
			before, after := joined[len(joined)-1], tokens[i+1]
			if !isPlain(after) || !adjacent(t, after) {
				break
			}
			text := t.Value + after.Value
			switch {
			case isPlain(before) && adjacent(before, t):
				text = before.Value + text
				joined[len(joined)-1] = token.String(text, text, before.Position)
			case before.Type == token.SequenceStartType, before.Type == token.CollectEntryType:
				joined = append(joined, token.String(text, text, t.Position)) // ::1
			default:
				joined = append(joined, t)
				continue
			}
			i++
			continue
		}
		joined = append(joined, t)
	}
	for i, t := range joined {
		t.Prev, t.Next = nil, nil
		if i > 0 {
			t.Prev, joined[i-1].Next = joined[i-1], t
		}
	}
	return joined
}

func isPlain(t *token.Token) bool { return t.CharacterType == token.CharacterTypeMiscellaneous }

// adjacent reports whether there is nothing between two tokens.
func adjacent(a, b *token.Token) bool {
	return a.Position.Line == b.Position.Line && a.Position.Column+utf8.RuneCountInString(a.Value) == b.Position.Column
}

func syntaxProblem(err error) *Problem {
	p := &Problem{Value: err.Error(), Want: "valid YAML"}
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) {
		p.Value = syntax.Message
		if syntax.Token != nil && syntax.Token.Position != nil {
			p.Line, p.Column = syntax.Token.Position.Line, syntax.Token.Position.Column
		}
	}
	return p
}

// checkNesting rejects texts that would take the parser too long or overflow its stack, because the parser recurses for
// each level and for each key of a mapping. Like the parser, checkNesting recognizes levels by their columns.
func checkNesting(tokens token.Tokens) *Problem {
	type level struct{ column, keys int }
	var block []level
	flow := 0
	for _, t := range tokens {
		line, column := t.Position.Line, t.Position.Column
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow = max(flow-1, 0)
		case token.DocumentHeaderType, token.DocumentEndType:
			block = block[:0]
		case token.SequenceEntryType, token.MappingValueType, token.MappingKeyType:
			if flow > 0 {
				continue
			}
			key := 0
			if t.Type != token.SequenceEntryType {
				key = 1
			}
			if t.Type == token.MappingValueType && t.Prev != nil && t.Prev.Position.Line == line {
				column = t.Prev.Position.Column
			}
			for len(block) > 0 && block[len(block)-1].column > column {
				block = block[:len(block)-1]
			}
			if len(block) == 0 || block[len(block)-1].column < column {
				block = append(block, level{column: column})
			}
			top := &block[len(block)-1]
			if top.keys += key; top.keys > MaxFields {
				return tooManyFields(line, column)
			}
		}
		if len(block)+flow > MaxDepth {
			return tooDeep(line, column)
		}
	}
	return nil
}

// A yamlReader converts the syntax tree of the YAML parser to nodes.
type yamlReader struct {
	anchors  map[string]*Node
	expanded int // number of nodes to which all aliases so far expand
}

// positionOf returns the position of a node. A mapping without braces begins with its first key.
func positionOf(n ast.Node) (line, column int) {
	switch m := n.(type) {
	case *ast.MappingNode:
		if len(m.Values) > 0 && (m.Start == nil || m.Start.Type != token.MappingStartType) {
			return positionOf(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return positionOf(m.Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line, t.Position.Column
	}
	return 0, 0
}

func (r *yamlReader) node(n ast.Node, depth int) (*Node, *Problem) {
	line, column := positionOf(n)
	if depth > MaxDepth {
		return nil, tooDeep(line, column)
	}
	node := &Node{Kind: Scalar, Line: line, Column: column, size: 1}
	switch n := n.(type) {
	case *ast.NullNode:
		node.Kind = Null
	case *ast.StringNode:
		node.Text = n.Value
		node.Quoted = n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		node.Text, node.Quoted = n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		node.Text = n.GetToken().Value
	case *ast.SequenceNode:
		return node, r.list(node, n, depth)
	case *ast.MappingNode:
		return node, r.mapping(node, n.Values, depth)
	case *ast.MappingValueNode:
		return node, r.mapping(node, []*ast.MappingValueNode{n}, depth)
	case *ast.AnchorNode:
		return r.anchor(n, depth)
	case *ast.AliasNode:
		return r.alias(n)
	default:
		return nil, &Problem{
			Value: n.Type().String(), Want: "plain values, lists and mappings: tags and directives are not supported",
			Line: line, Column: column,
		}
	}
	return node, nil
}

func (r *yamlReader) list(node *Node, n *ast.SequenceNode, depth int) *Problem {
	node.Kind = List
	for _, value := range n.Values {
		item, p := r.node(value, depth+1)
		if p != nil {
			return p
		}
		node.Items = append(node.Items, item)
		node.size += item.size
	}
	return nil
}

// mapping reads a mapping. The fields of merged mappings (<<) follow its own fields.
func (r *yamlReader) mapping(node *Node, values []*ast.MappingValueNode, depth int) *Problem {
	node.Kind = Map
	var names fieldNames
	var merged []*Node
	for _, value := range values {
		line, column := positionOf(value.Key)
		v, p := r.node(value.Value, depth+1)
		if p != nil {
			return p
		}
		if value.Key.IsMergeKey() {
			if v.Kind == List {
				merged = append(merged, v.Items...)
			} else {
				merged = append(merged, v)
			}
			continue
		}
		key, p := r.node(value.Key, depth+1)
		if p != nil {
			return p
		}
		if key.Kind != Scalar {
			return &Problem{Value: key.Kind.String(), Want: "a name", Line: line, Column: column}
		}
		if names.add(node.Fields, key.Text) {
			return duplicateName(key.Text, line, column)
		}
		if len(node.Fields) == MaxFields {
			return tooManyFields(line, column)
		}
		node.Fields = append(node.Fields, Field{Name: key.Text, Line: line, Column: column, Value: v})
		node.size += v.size
	}
	for _, m := range merged {
		if m.Kind != Map {
			return &Problem{Value: "<<", Want: "a mapping, or a list of mappings, to merge", Line: m.Line, Column: m.Column}
		}
		for _, field := range m.Fields {
			if names.add(node.Fields, field.Name) {
				continue // explicit fields have precedence
			}
			if len(node.Fields) == MaxFields {
				return tooManyFields(field.Line, field.Column)
			}
			node.Fields = append(node.Fields, field)
			node.size += field.Value.size
		}
	}
	return nil
}

func (r *yamlReader) anchor(n *ast.AnchorNode, depth int) (*Node, *Problem) {
	name := n.Name.GetToken().Value
	delete(r.anchors, name) // an anchor must not be used within itself
	node, p := r.node(n.Value, depth)
	if p == nil {
		r.anchors[name] = node
	}
	return node, p
}

func (r *yamlReader) alias(n *ast.AliasNode) (*Node, *Problem) {
	line, column := positionOf(n)
	name := n.Value.GetToken().Value
	node := r.anchors[name]
	if node == nil {
		return nil, &Problem{
			Value: "*" + name, Want: "the name of an anchor that ends before it", Line: line, Column: column,
		}
	}
	if r.expanded += node.size; r.expanded > MaxExpanded {
		return nil, &Problem{
			Value: "*" + name, Want: "aliases that expand to at most " + strconv.Itoa(MaxExpanded) + " values in total",
			Line: line, Column: column,
		}
	}
	return node, nil
}
