package main

import (
	"io"
	"net/http"

	"github.com/gin-gonic/gin"
)

// limited converts net/http middleware to gin's.
func limited(limit func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		passed := false
		limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed = true
			c.Request = r
			under := c.Writer
			c.Writer = &through{ResponseWriter: under, w: w}
			defer func() { c.Writer = under }()
			c.Next()
			c.Writer.WriteHeaderNow()
		})).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	}
}

// through is gin's writer on top of the middleware's writer, which adds its header fields.
type through struct {
	gin.ResponseWriter
	w http.ResponseWriter
}

func (t *through) WriteHeaderNow() {
	if !t.Written() {
		t.w.WriteHeader(t.Status())
		t.ResponseWriter.WriteHeaderNow()
	}
}

func (t *through) Write(p []byte) (int, error)       { return t.w.Write(p) }
func (t *through) WriteString(s string) (int, error) { return io.WriteString(t.w, s) }

func (t *through) Flush() {
	if f, ok := t.w.(http.Flusher); ok {
		f.Flush()
	}
}
