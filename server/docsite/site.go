package docsite

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Options are the parameters of Build.
type Options struct {
	// Files contains the documents, with the extension .md, and their pictures.
	Files fs.FS
	// Sections is the navigation. Documents that are not in it are put in a last section with the title More.
	Sections []Section
	// Source is the URL of the source directory of the documents. Links to files that are not on the site become links
	// to this directory. Required.
	Source string
	// Version is shown on every page. Default: none.
	Version string
}

// A Section is a group of documents in the navigation.
type Section struct {
	Title string
	// Documents are names in Files, such as rules.md. A name that ends in a slash stands for all documents of a folder,
	// README.md first.
	Documents []string
}

// A Site is a built web site. It is safe for concurrent use.
type Site struct {
	files map[string][]byte // by path: index.html, rules.html, search.json
}

var (
	//go:embed assets/page.html
	pageText string
	//go:embed assets/docs.css
	styleSheet []byte
	//go:embed assets/docs.js
	script []byte
	//go:embed assets/icon.svg
	icon []byte
)

// Build renders all documents.
func Build(o Options) (*Site, error) {
	menu, err := o.menu()
	if err != nil {
		return nil, err
	}
	s := &Site{files: map[string][]byte{"docs.css": styleSheet, "docs.js": script, "icon.svg": icon}}
	var index []searchEntry
	for i := range menu {
		for j := range menu[i].pages {
			p := &menu[i].pages[j]
			s.files[p.file] = p.write(menu, o.Version)
			index = append(index, p.search...)
		}
	}
	if s.files["search.json"], err = json.Marshal(index); err != nil {
		return nil, err
	}
	return s, o.addPictures(s)
}

// A group is a section with its rendered pages.
type group struct {
	title string
	pages []page
}

// menu renders all documents, and returns them by section.
func (o *Options) menu() ([]group, error) {
	rest, err := o.documents()
	if err != nil {
		return nil, err
	}
	all := slices.Clone(rest)
	source, err := url.Parse(o.Source)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	r := newRenderer(all, source)
	sections := slices.Clone(o.Sections)
	if unlisted := o.unlisted(all); len(unlisted) > 0 {
		sections = append(sections, Section{Title: "More", Documents: unlisted})
	}
	var menu []group
	for _, s := range sections {
		g := group{title: s.Title}
		for _, name := range expand(s.Documents, all) {
			i := slices.Index(rest, name)
			if i < 0 {
				return nil, fmt.Errorf("navigation: %s does not exist, or is named twice", name)
			}
			rest = slices.Delete(rest, i, i+1)
			text, err := fs.ReadFile(o.Files, name)
			if err != nil {
				return nil, err
			}
			p, err := r.render(name, text)
			if err != nil {
				return nil, err
			}
			g.pages = append(g.pages, p)
		}
		menu = append(menu, g)
	}
	return menu, nil
}

// unlisted returns the documents that are in no section.
func (o *Options) unlisted(all []string) []string {
	var named []string
	for _, s := range o.Sections {
		named = append(named, expand(s.Documents, all)...)
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(named, name) })
}

// expand replaces each folder with its documents, README.md first.
func expand(names, all []string) (list []string) {
	for _, name := range names {
		if !strings.HasSuffix(name, "/") {
			list = append(list, name)
			continue
		}
		readme := name + "README.md"
		if slices.Contains(all, readme) {
			list = append(list, readme)
		}
		for _, document := range all {
			if strings.HasPrefix(document, name) && document != readme {
				list = append(list, document)
			}
		}
	}
	return list
}

// documents returns the names of all documents, sorted.
func (o *Options) documents() ([]string, error) {
	var names []string
	err := fs.WalkDir(o.Files, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

// addPictures adds the .png and .svg files.
func (o *Options) addPictures(s *Site) error {
	return fs.WalkDir(o.Files, ".", func(name string, e fs.DirEntry, err error) error {
		if ext := path.Ext(name); err != nil || e.IsDir() || ext != ".png" && ext != ".svg" {
			return err
		}
		data, err := fs.ReadFile(o.Files, name)
		s.files[name] = data
		return err
	})
}

// Names returns the paths of all files of the site, sorted.
func (s *Site) Names() []string {
	var names []string
	for name := range s.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Write writes the site to a directory, and creates the directory if needed. It does not remove other files.
func (s *Site) Write(dir string) error {
	for name, data := range s.files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
