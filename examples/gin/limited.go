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
			ginWriter := c.Writer
			c.Writer = &writer{ResponseWriter: ginWriter, w: w}
			defer func() { c.Writer = ginWriter }()
			c.Next()
			c.Writer.WriteHeaderNow()
		})).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	}
}

// A writer is gin's writer, except that it writes to the middleware's writer, which adds header fields.
type writer struct {
	gin.ResponseWriter
	w http.ResponseWriter
}

func (w *writer) WriteHeaderNow() {
	if !w.Written() {
		w.w.WriteHeader(w.Status())
		w.ResponseWriter.WriteHeaderNow()
	}
}

func (w *writer) Write(p []byte) (int, error)       { return w.w.Write(p) }
func (w *writer) WriteString(s string) (int, error) { return io.WriteString(w.w, s) }

func (w *writer) Flush() {
	if f, ok := w.w.(http.Flusher); ok {
		f.Flush()
	}
}
