package docsite

import (
	"html/template"
	"path"
	"strings"
)

// A page is a rendered document.
type page struct {
	document string // its name, such as rules.md
	file     string // of the site, such as rules.html
	title    string
	html     []byte
	headings []heading
	search   []searchEntry
}

// A heading is a heading of the second level, for the contents of a page.
type heading struct{ Text, Anchor string }

// A searchEntry is a part of a page under one heading. The names are short because the browser loads all entries.
type searchEntry struct {
	File    string `json:"f"` // with an anchor, such as rules.html#key
	Page    string `json:"p"` // title of the page
	Heading string `json:"h"`
	Text    string `json:"t"`
}

// pageData are the values of the template of pages.
type pageData struct {
	Title    string
	Root     string // relative path of the site's root: "" or "../"
	Version  string
	Menu     []menuGroup
	Content  template.HTML
	Headings []heading
}

type menuGroup struct {
	Title string
	Open  bool
	Pages []menuEntry
}

type menuEntry struct {
	Title, File string
	Current     bool
}

// entries returns the navigation as the page current shows it.
func entries(menu []group, current *page) []menuGroup {
	root := strings.Repeat("../", strings.Count(current.file, "/"))
	var list []menuGroup
	for i := range menu {
		g := menuGroup{Title: menu[i].title}
		for j := range menu[i].pages {
			p := &menu[i].pages[j]
			g.Open = g.Open || p == current
			g.Pages = append(g.Pages, menuEntry{Title: p.title, File: root + p.file, Current: p == current})
		}
		list = append(list, g)
	}
	return list
}

// fileOf returns the file of a document: rules.html for rules.md, and index.html for README.md.
func fileOf(document string) string {
	dir, name := path.Split(document)
	if name == "README.md" {
		return dir + "index.html"
	}
	return dir + strings.TrimSuffix(name, ".md") + ".html"
}
