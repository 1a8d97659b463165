package docsite

import (
	"bytes"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// A renderer renders documents that link to each other.
type renderer struct {
	markdown  goldmark.Markdown
	documents []string
	source    *url.URL
}

func newRenderer(documents []string, source *url.URL) *renderer {
	// Align cells with attributes, because the Content-Security-Policy allows no inline styles.
	tables := extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))
	return &renderer{
		markdown: goldmark.New(
			goldmark.WithExtensions(tables, extension.Strikethrough, extension.Linkify),
			goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		),
		documents: documents,
		source:    source,
	}
}

// render renders one document.
func (r *renderer) render(document string, source []byte) (page, error) {
	p := page{document: document, file: fileOf(document)}
	context := parser.NewContext(parser.WithIDs(&anchors{used: make(map[string]int)}))
	root := r.markdown.Parser().Parse(text.NewReader(source), parser.WithContext(context))
	if err := ast.Walk(root, r.linkRewriter(document)); err != nil {
		return p, fmt.Errorf("%s: %w", document, err)
	}
	collect(&p, root, source)
	if p.title == "" {
		return p, fmt.Errorf("%s: no heading of the first level", document)
	}
	for i := range p.search {
		p.search[i].Page = p.title
	}
	var out bytes.Buffer
	if err := r.markdown.Renderer().Render(&out, source, root); err != nil {
		return p, fmt.Errorf("%s: %w", document, err)
	}
	p.html = out.Bytes()
	return p, nil
}

// linkRewriter returns a visitor that changes links to documents into links to their pages, and links to other files of
// the source into absolute URLs.
func (r *renderer) linkRewriter(document string) ast.Walker {
	return func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			link.Destination = []byte(r.target(document, string(link.Destination)))
		}
		return ast.WalkContinue, nil
	}
}

// target returns the target of a document's link on the site.
func (r *renderer) target(document, link string) string {
	file, anchor, hasAnchor := strings.Cut(link, "#")
	if file == "" || strings.Contains(file, "://") || strings.HasPrefix(file, "mailto:") {
		return link
	}
	full := path.Join(path.Dir(document), file)
	if !slices.Contains(r.documents, full) {
		return r.source.JoinPath(full).String() + link[len(file):]
	}
	to := strings.Repeat("../", strings.Count(document, "/")) + fileOf(full)
	if hasAnchor {
		to += "#" + anchor
	}
	return to
}

// collect sets the title, headings and search entries of a page from its parsed document.
func collect(p *page, root ast.Node, source []byte) {
	var text strings.Builder
	entry := searchEntry{File: p.file}
	flush := func() {
		entry.Text = strings.Join(strings.Fields(text.String()), " ")
		if entry.Text != "" || entry.Heading != "" {
			p.search = append(p.search, entry)
		}
		text.Reset()
	}
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			writeText(&text, n, source)
			continue
		}
		title := plain(h, source)
		id, _ := h.AttributeString("id")
		anchor, _ := id.([]byte)
		switch {
		case h.Level == 1 && p.title == "":
			p.title = title
		case h.Level == 2:
			p.headings = append(p.headings, heading{Text: title, Anchor: string(anchor)})
		}
		flush()
		entry = searchEntry{File: p.file + "#" + string(anchor), Heading: title}
	}
	flush()
}

func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	writeText(&b, n, source)
	return strings.Join(strings.Fields(b.String()), " ")
}

// writeText writes the text under a node, without markup.
func writeText(b *strings.Builder, n ast.Node, source []byte) {
	switch n := n.(type) {
	case *ast.Text:
		b.Write(n.Segment.Value(source))
		if n.SoftLineBreak() {
			b.WriteByte(' ')
		}
		return
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			b.Write(line.Value(source))
		}
		return
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		writeText(b, c, source)
	}
	if n.Type() == ast.TypeBlock || n.Kind() == east.KindTableCell {
		b.WriteByte(' ')
	}
}

// anchors generates the same anchors for headings as GitHub, because links must work both there and on the site.
type anchors struct{ used map[string]int }

// Generate returns the anchor of a heading.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	name := strings.Map(func(c rune) rune {
		switch {
		case unicode.IsLetter(c) || unicode.IsDigit(c) || c == '-' || c == '_':
			return unicode.ToLower(c)
		case c == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(string(value)))
	n := a.used[name]
	a.used[name]++
	if n > 0 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	return []byte(name)
}

// Put records an anchor that a document sets itself.
func (a *anchors) Put(value []byte) { a.used[string(value)]++ }
