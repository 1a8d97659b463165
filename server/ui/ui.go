package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed dist
var dist embed.FS

// policy lets the page load what is beside it and ask who served it; scripts and styles in the page itself do not run,
// nothing makes HTML of text, and no other page may frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// index is the page, which finds out by its address what to show.
const index = "index.html"

// pages are the addresses that the console shows something at; src/route.ts has them as well.
var pages = map[string]bool{
	"/": true, "/rules": true, "/explain": true, "/clients": true, "/overrides": true, "/audit": true, "/tokens": true, "/signin": true,
}

// isPage reports whether the console shows something at a path: at those of pages, and at one for each rule.
func isPage(at string) bool {
	rule, ok := strings.CutPrefix(at, "/rules/")
	return pages[at] || ok && rule != "" && !strings.Contains(rule, "/")
}

// A file is one of the console's, as it is sent.
type file struct {
	kind        string
	plain, gzip []byte
	tag         string // of the plain form, without quotes
}

// Handler serves the console, and has others answer what is not of it: the rules service, metrics and health. It fails
// only if the console was not built.
func Handler(others http.Handler) (http.Handler, error) {
	files, err := read(dist)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if isPage(r.URL.Path) {
			name = index
		} else if name == index { // it has one address
			name = ""
		}
		f, ok := files[name]
		switch {
		case !ok:
			others.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "Use GET, HEAD.", http.StatusMethodNotAllowed)
		default:
			f.serve(w, r, name != index)
		}
	}), nil
}

// read returns the files of the console by their paths.
func read(from fs.FS) (map[string]*file, error) {
	files := make(map[string]*file)
	err := fs.WalkDir(from, "dist", func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, at)
		if err != nil {
			return err
		}
		packed, err := compress(data)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		files[strings.TrimPrefix(at, "dist/")] = &file{
			kind: kind(at), plain: data, gzip: packed, tag: base64.RawURLEncoding.EncodeToString(sum[:12]),
		}
		return nil
	})
	if err == nil && files[index] == nil {
		err = fmt.Errorf("ui: dist has no %s: run make ui", index)
	}
	return files, err
}

// kind returns the type of a file by its name. What hosts say of names is not asked: it differs.
func kind(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	default:
		return "application/octet-stream"
	}
}

func compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// serve sends the file. One whose name has a hash of its content never changes.
func (f *file) serve(w http.ResponseWriter, r *http.Request, hashed bool) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Type", f.kind)
	if hashed {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	body, tag := f.plain, `"`+f.tag+`"`
	if len(f.gzip) < len(f.plain) && takesGzip(r.Header.Values("Accept-Encoding")) {
		body, tag = f.gzip, `"`+f.tag+`-gz"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	if has(r.Header.Values("If-None-Match"), tag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone
	}
}

// has reports whether a tag is in a list of those that a browser has.
func has(list []string, tag string) bool {
	for _, given := range strings.Split(strings.Join(list, ","), ",") {
		if given = strings.TrimSpace(given); given == "*" || strings.TrimPrefix(given, "W/") == tag {
			return true
		}
	}
	return false
}

// takesGzip reports whether an Accept-Encoding allows gzip. What it says of gzip counts before what it says of all
// others.
func takesGzip(list []string) bool {
	allowed := false
	for _, given := range strings.Split(strings.Join(list, ","), ",") {
		coding, params, err := mime.ParseMediaType(strings.TrimSpace(given))
		if err != nil || coding != "gzip" && coding != "*" {
			continue
		}
		q, err := strconv.ParseFloat(params["q"], 64)
		allowed = params["q"] == "" || err == nil && q > 0
		if coding == "gzip" {
			return allowed
		}
	}
	return allowed
}
