package docsite

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"path"
	"strings"
	"sync"
)

// policy is the Content-Security-Policy: pages load only files of their own origin, without inline scripts or styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".json": "application/json", ".png": "image/png", ".svg": "image/svg+xml",
}

// Handler returns a handler that serves a site under a prefix such as /docs/. It redirects other paths, such as /docs,
// to the prefix. It calls build once, for the first request.
func Handler(prefix string, build func() (*Site, error)) http.Handler {
	site := sync.OnceValues(func() (map[string]*response, error) {
		s, err := build()
		if err != nil {
			return nil, err
		}
		responses := make(map[string]*response, len(s.files))
		for name, data := range s.files {
			if responses[name], err = newResponse(name, data); err != nil {
				return nil, err
			}
		}
		return responses, nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, prefix)
		if !ok {
			http.Redirect(w, r, prefix, http.StatusMovedPermanently)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "Use GET, HEAD.", http.StatusMethodNotAllowed)
			return
		}
		files, err := site()
		if err != nil {
			http.Error(w, "The documentation cannot be shown: "+err.Error(), http.StatusInternalServerError)
			return
		}
		if name == "" || strings.HasSuffix(name, "/") {
			name += "index.html"
		}
		f, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		f.serve(w, r)
	})
}

// A response is a file of the site, ready to be sent.
type response struct {
	contentType string
	data, gzip  []byte
	etag        string
}

func newResponse(name string, data []byte) (*response, error) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return &response{
		contentType: contentTypes[path.Ext(name)], data: data, gzip: packed.Bytes(),
		etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
	}, nil
}

func (f *response) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Content-Type", f.contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", f.etag)
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.data
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.gzip
	}
	_, _ = w.Write(body) // an error means that the client is gone
}
