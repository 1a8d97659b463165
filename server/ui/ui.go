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

// policy is the Content-Security-Policy. The page loads files and calls APIs of its own origin only. Inline scripts and
// styles do not run, text cannot become HTML, and other pages cannot frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// index is the file that is served for all pages. Its script shows the page for the current URL.
const index = "index.html"

// pages are the paths of the console's pages. src/route.ts has the same list.
var pages = map[string]bool{
	"/": true, "/rules": true, "/clients": true, "/overrides": true, "/explain": true, "/fleet": true, "/stores": true, "/alerts": true,
	"/webhooks": true, "/audit": true, "/tokens": true, "/signin": true,
}

// isPage reports whether a path is a page of the console: one of pages, or the page of a rule.
func isPage(path string) bool {
	rule, ok := strings.CutPrefix(path, "/rules/")
	return pages[path] || ok && rule != "" && !strings.Contains(rule, "/")
}

// A file is a file of the console.
type file struct {
	contentType string
	plain, gzip []byte
	etag        string // ETag of plain, without quotes
}

// Handler returns a handler that serves the console. It passes requests for other paths, such as the rules service,
// metrics and health, to others. It returns an error only if the console was not built.
func Handler(others http.Handler) (http.Handler, error) {
	files, err := read(dist)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if isPage(r.URL.Path) {
			name = index
		} else if name == index { // the page is at /, not at /index.html
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
func read(embedded fs.FS) (map[string]*file, error) {
	files := make(map[string]*file)
	err := fs.WalkDir(embedded, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(embedded, name)
		if err != nil {
			return err
		}
		packed, err := compress(data)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		files[strings.TrimPrefix(name, "dist/")] = &file{
			contentType: contentType(name), plain: data, gzip: packed, etag: base64.RawURLEncoding.EncodeToString(sum[:12]),
		}
		return nil
	})
	if err == nil && files[index] == nil {
		err = fmt.Errorf("ui: dist has no %s: run make ui", index)
	}
	return files, err
}

// contentType returns the media type of a file by its extension. Package mime would also use tables of the host, which
// differ between hosts.
func contentType(name string) string {
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

// serve sends the file. hashed means that the name of the file contains a hash of its content, so that browsers can
// cache it forever.
func (f *file) serve(w http.ResponseWriter, r *http.Request, hashed bool) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Type", f.contentType)
	if hashed {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	body, tag := f.plain, `"`+f.etag+`"`
	if len(f.gzip) < len(f.plain) && acceptsGzip(r.Header.Values("Accept-Encoding")) {
		body, tag = f.gzip, `"`+f.etag+`-gz"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	if matchesETag(r.Header.Values("If-None-Match"), tag) {
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

// matchesETag reports whether an If-None-Match header contains a tag.
func matchesETag(header []string, tag string) bool {
	for entry := range strings.SplitSeq(strings.Join(header, ","), ",") {
		if entry = strings.TrimSpace(entry); entry == "*" || strings.TrimPrefix(entry, "W/") == tag {
			return true
		}
	}
	return false
}

// acceptsGzip reports whether an Accept-Encoding header allows gzip. An entry for gzip takes precedence over one for *.
func acceptsGzip(header []string) bool {
	allowed := false
	for entry := range strings.SplitSeq(strings.Join(header, ","), ",") {
		coding, params, err := mime.ParseMediaType(strings.TrimSpace(entry))
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
