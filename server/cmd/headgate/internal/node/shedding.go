package node

import (
	"net/http"
	"strings"

	"github.com/headgate/headgate/server/cmd/headgate/internal/hostguard"
	"github.com/headgate/headgate/server/overload"
)

// shedding wraps the handler of the admin listener. During an overload, it responds to less important requests with 503
// and Retry-After. Metrics, health, tokens, rules and keys are always served, because an operator needs them to end the
// overload.
func shedding(m *overload.Monitor, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if stage := stageOf(r.URL.Path); stage != overload.Nothing && m.Sheds(stage) {
			w.Header().Set("Retry-After", "5")
			hostguard.WriteProblem(w, http.StatusServiceUnavailable, "This node is overloaded and does not serve "+
				shedNames[stage]+" now. Metrics and rules are served.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

var shedNames = map[overload.Stage]string{
	overload.Console: "the console", overload.Explain: "explanations", overload.Detail: "statistics",
}

// stageOf returns the first stage of overload at which a path is not served, or Nothing if it is always served.
func stageOf(path string) overload.Stage {
	switch {
	case path == "/v1/explain", path == "/v1/whatif":
		return overload.Explain
	case path == "/v1/traffic", strings.HasPrefix(path, "/v1/traffic/") && !strings.HasSuffix(path, ":erase"):
		return overload.Detail
	case strings.HasPrefix(path, "/v1/"), path == "/metrics", path == "/healthz", path == "/readyz":
		return overload.Nothing
	default:
		return overload.Console
	}
}

// adjustTurns adapts the number of connections that the gateway serves at the same time. busy is the share of the cores
// that this process uses.
func (n *Node) adjustTurns(busy float64) {
	if n.gateway != nil {
		n.gateway.AdjustTurns(busy)
	}
}
