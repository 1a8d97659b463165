package source

// A Kind is the kind of a Node.
type Kind uint8

// The kinds of nodes.
const (
	Null Kind = iota
	Scalar
	List
	Map
)

func (k Kind) String() string {
	return [...]string{Null: "nothing", Scalar: "a value", List: "a list", Map: "a mapping"}[k]
}

// A Node is a part of a file.
type Node struct {
	Kind Kind
	// Line and Column are the position of the node, from 1 on. Columns are counted in characters.
	Line, Column int
	// Text is the value of a scalar.
	Text string
	// Quoted reports whether a scalar was written in quotes, so that it is a text even if it looks like a number.
	Quoted bool
	// Items are the elements of a list.
	Items []*Node
	// Fields are the fields of a mapping, in order. Names are unique.
	Fields []Field

	size int // number of nodes in it, itself included, with all aliases expanded
}

// A Field is a name and a value in a mapping.
type Field struct {
	Name         string
	Line, Column int // of the name
	Value        *Node
}

// Field returns the value of the field with a name, or nil if there is none.
func (n *Node) Field(name string) *Node {
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return n.Fields[i].Value
		}
	}
	return nil
}

// Word returns a scalar that is written without quotes.
func Word(text string) *Node { return &Node{Kind: Scalar, Text: text} }

// Text returns a scalar that is a text. It is written in quotes if it could be read as a number, a bool or null.
func Text(text string) *Node { return &Node{Kind: Scalar, Text: text, Quoted: true} }

// Append adds a field to a mapping.
func (n *Node) Append(name string, value *Node) {
	n.Fields = append(n.Fields, Field{Name: name, Value: value})
}
