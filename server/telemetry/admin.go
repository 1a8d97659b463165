package telemetry

import (
	"encoding/json"
	"io"
	"net/http"
)

// Admin has the HTTP endpoints for operators and their tools.
type Admin struct {
	// Metrics are served at /metrics.
	Metrics *Metrics
	// Status is called for /readyz.
	Status func() Status
}

// Handler serves:
//
//	/healthz  200; if there is no response, the process should be restarted
//	/readyz   200 if the node should receive requests, otherwise 503; the body is the Status as JSON
//	/metrics  the metrics
//	/         a list of these paths
func (a Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, struct {
			Status string `json:"status"`
		}{"ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		status := a.Status()
		code := http.StatusServiceUnavailable
		if status.State == Ready {
			code = http.StatusOK
		}
		writeJSON(w, code, status)
	})
	mux.Handle("GET /metrics", a.Metrics.Handler())
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w,
			"headgate\n\n/metrics  metrics for Prometheus\n/readyz   readiness and status\n/healthz  liveness\n")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // an error means that the client has disconnected
}
