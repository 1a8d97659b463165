package docsite

import (
	"fmt"
	"html"
	"path"
	"strings"
)

// A page is a rendered document.
type page struct {
	document string // file name of the document, such as rules.md
	file     string // path of the page on the site, such as rules.html
	title    string
	html     []byte
	headings []heading
	search   []searchEntry
}

// A heading is a second-level heading, which is in the page's table of contents.
type heading struct{ Text, Anchor string }

// A searchEntry is the text under one heading of a page. The JSON names are short because the browser loads all
// entries.
type searchEntry struct {
	File    string `json:"f"` // with an anchor, such as rules.html#key
	Page    string `json:"p"` // title of the page
	Heading string `json:"h"`
	Text    string `json:"t"`
}

// write returns the page as HTML.
func (p *page) write(menu []group, version string) []byte {
	root := strings.Repeat("../", strings.Count(p.file, "/"))
	if version != "" {
		version = `<span class="version">` + html.EscapeString(version) + `</span>`
	}
	return []byte(strings.NewReplacer(
		"{{title}}", html.EscapeString(p.title),
		"{{root}}", root,
		"{{version}}", version,
		"{{menu}}", p.menu(menu, root),
		"{{content}}", string(p.html), // rendered from our own documents, without raw HTML
		"{{headings}}", p.contents(),
	).Replace(pageText))
}

// menu returns the HTML of the navigation, in which this page is marked. root is the path to the root of the site.
func (p *page) menu(menu []group, root string) string {
	var b strings.Builder
	for i := range menu {
		var open string
		var items strings.Builder
		for j := range menu[i].pages {
			other := &menu[i].pages[j]
			var current string
			if other == p {
				open, current = " open", ` aria-current="page"`
			}
			fmt.Fprintf(&items, "<li><a href=\"%s\"%s>%s</a></li>\n", html.EscapeString(root+other.file), current,
				html.EscapeString(other.title))
		}
		fmt.Fprintf(&b, "<details%s><summary>%s</summary>\n<ul>%s</ul></details>\n", open,
			html.EscapeString(menu[i].title), &items)
	}
	return b.String()
}

// contents returns the HTML of the page's table of contents.
func (p *page) contents() string {
	if len(p.headings) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("<aside aria-label=\"On this page\"><p>On this page</p>\n<ul>")
	for _, h := range p.headings {
		fmt.Fprintf(&b, "<li><a href=\"#%s\">%s</a></li>\n", html.EscapeString(h.Anchor), html.EscapeString(h.Text))
	}
	b.WriteString("</ul></aside>")
	return b.String()
}

// fileOf returns the file of a document: rules.html for rules.md, and index.html for README.md.
func fileOf(document string) string {
	dir, name := path.Split(document)
	if name == "README.md" {
		return dir + "index.html"
	}
	return dir + strings.TrimSuffix(name, ".md") + ".html"
}
