package source

import (
	"encoding/json"
	"strconv"
	"strings"
)

// YAML formats a node as YAML, with one field per line. Short lists and mappings are on one line.
func YAML(n *Node) []byte {
	w := yamlWriter{}
	w.block(n, 0)
	return []byte(w.String())
}

// JSON formats a node as JSON, indented by two spaces.
func JSON(n *Node) []byte {
	var b strings.Builder
	writeJSON(&b, n, "\n")
	b.WriteByte('\n')
	return []byte(b.String())
}

// Lists and mappings are written on one line if they have at most maxInlineDepth levels and fit in lineWidth.
const (
	lineWidth      = 100
	maxInlineDepth = 2
)

type yamlWriter struct{ strings.Builder }

// block writes a node at the beginning of a line or after a dash. It may use several lines.
func (w *yamlWriter) block(n *Node, indent int) {
	switch {
	case n.Kind == List && len(n.Items) > 0:
		for i, item := range n.Items {
			if i > 0 {
				w.indent(indent)
			}
			w.WriteString("- ")
			w.nested(item, indent+2, false)
		}
	case n.Kind == Map && len(n.Fields) > 0:
		for i, f := range n.Fields {
			if i > 0 {
				w.indent(indent)
			}
			w.WriteString(scalar(f.Name, true) + ":")
			w.nested(f.Value, indent+2, true)
		}
	default:
		w.WriteString(flow(n) + "\n")
	}
}

// nested writes a node after a dash or a name.
func (w *yamlWriter) nested(n *Node, indent int, named bool) {
	space := ""
	if named {
		space = " "
	}
	isScalar := n.Kind == Scalar || n.Kind == Null
	mayBeInline := depth(n) <= maxInlineDepth && (named || n.Kind != Map) // a mapping in a list is always a block
	if isScalar || mayBeInline {
		if text := flow(n); isScalar || len(text)+indent < lineWidth {
			w.WriteString(space + text + "\n")
			return
		}
	}
	if named {
		w.WriteByte('\n')
		w.WriteString(strings.Repeat(" ", indent))
	}
	w.block(n, indent)
}

func (w *yamlWriter) indent(n int) { w.WriteString(strings.Repeat(" ", n)) }

// depth returns the number of levels of lists and mappings in a node.
func depth(n *Node) int {
	deepest := 0
	for _, item := range n.Items {
		deepest = max(deepest, depth(item))
	}
	for _, f := range n.Fields {
		deepest = max(deepest, depth(f.Value))
	}
	if n.Kind == List || n.Kind == Map {
		deepest++
	}
	return deepest
}

// flow formats a node on one line, which YAML calls flow style.
func flow(n *Node) string {
	switch n.Kind {
	case Null:
		return "null"
	case Scalar:
		return scalar(n.Text, n.Quoted)
	case List:
		items := make([]string, len(n.Items))
		for i, item := range n.Items {
			items[i] = flow(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	default:
		fields := make([]string, len(n.Fields))
		for i, f := range n.Fields {
			fields[i] = scalar(f.Name, true) + ": " + flow(f.Value)
		}
		return "{" + strings.Join(fields, ", ") + "}"
	}
}

// scalar formats a text as a YAML scalar. It adds quotes only if a YAML parser could otherwise read something else, for
// example if a string looks like a number or is a keyword such as true or null.
func scalar(text string, isString bool) string {
	if _, err := strconv.ParseInt(text, 10, 64); !isString && err == nil {
		return text
	}
	safe := text != "" && text[0] != '-' && text[0] != '.' && !strings.HasSuffix(text, " ")
	for i := 0; safe && i < len(text); i++ {
		c := text[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '/'
		digit := c >= '0' && c <= '9'
		safe = letter || digit ||
			i > 0 && (c == '-' || c == '.' || c == ' ' || c == '*' && text[i-1] != ' ' || c == '@' || c == '+')
	}
	if safe && isString {
		first := text[0]
		safe = !(first >= '0' && first <= '9')
		switch strings.ToLower(text) {
		case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
			safe = false
		}
	}
	if safe {
		return text
	}
	return quoted(text)
}

// quoted formats a text in double quotes, which are the same in YAML and JSON.
func quoted(text string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // cannot fail for a string
	return strings.TrimSuffix(b.String(), "\n")
}

// writeJSON writes a node. lineStart is a newline and the indentation of the node.
func writeJSON(b *strings.Builder, n *Node, lineStart string) {
	switch n.Kind {
	case Null:
		b.WriteString("null")
	case Scalar:
		if !n.Quoted && json.Valid([]byte(n.Text)) {
			b.WriteString(n.Text)
		} else {
			b.WriteString(quoted(n.Text))
		}
	case List:
		writeAll(b, "[]", len(n.Items), lineStart, func(i int, lineStart string) { writeJSON(b, n.Items[i], lineStart) })
	default:
		writeAll(b, "{}", len(n.Fields), lineStart, func(i int, lineStart string) {
			b.WriteString(quoted(n.Fields[i].Name) + ": ")
			writeJSON(b, n.Fields[i].Value, lineStart)
		})
	}
}

// writeAll writes n items in brackets, each on its own line.
func writeAll(b *strings.Builder, brackets string, n int, lineStart string, write func(i int, lineStart string)) {
	b.WriteByte(brackets[0])
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(lineStart + "  ")
		write(i, lineStart+"  ")
	}
	if n > 0 {
		b.WriteString(lineStart)
	}
	b.WriteByte(brackets[1])
}
