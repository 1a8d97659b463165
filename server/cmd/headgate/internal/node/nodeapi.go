package node

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/cmd/headgate/internal/hostguard"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/token"
)

// A nodeAPI serves calls about this node alone. They need no rules service: a node whose rules service is unreachable
// accepts the token of --admin-token-file.
type nodeAPI struct {
	enforcement   *enforcement
	control       *rulesService
	namespace     string
	tokens        *token.Store // knows only the token of --admin-token-file
	hasAdminToken bool         // --admin-token-file is set
}

func (n *Node) newNodeAPI() (*nodeAPI, error) {
	secret, err := n.config.AdminToken()
	if err != nil {
		return nil, err
	}
	tokens, err := token.NewStore(token.Options{AdminToken: secret, Logins: n.logins, Now: time.Now, Logger: n.log})
	if err != nil {
		return nil, err
	}
	return &nodeAPI{
		enforcement: n.enforcement, control: n.rulesService, namespace: n.config.ControlNamespace(), tokens: tokens,
		hasAdminToken: secret != "",
	}, nil
}

// handler returns the handler of the paths of this node, and others for all other paths.
func (a *nodeAPI) handler(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	viewers := []token.Role{token.Viewer, token.Editor, token.Admin}
	editors := []token.Role{token.Editor, token.Admin}
	mux.HandleFunc("GET /v1/node/enforcement", a.requireRole(viewers, a.getEnforcement))
	mux.HandleFunc("POST /v1/node/enforcement:off", a.requireRole(editors, a.turnOff))
	mux.HandleFunc("POST /v1/node/enforcement:on", a.requireRole(editors, a.turnOn))
	for path, serve := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.HandleFunc("GET "+path, a.requireGlobalAdmin(extendDeadline(serve)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/node/") || strings.HasPrefix(r.URL.Path, "/debug/pprof") {
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			mux.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// A nodeHandler serves a call of a caller whose token was accepted.
type nodeHandler func(w http.ResponseWriter, r *http.Request, caller *token.Principal)

// only returns a handler for tokens with one of these roles that are valid for the namespace of this node.
func (a *nodeAPI) requireRole(roles []token.Role, serve nodeHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller := a.authenticate(w, r)
		switch {
		case caller == nil: // the response was sent
		case !slices.Contains(roles, caller.Role):
			hostguard.WriteProblem(w, http.StatusForbidden, "The token "+caller.ID+" has the role "+string(caller.Role)+
				". This is for "+token.JoinRoles(roles)+".")
		case !caller.Covers(a.namespace):
			hostguard.WriteProblem(w, http.StatusForbidden,
				"The token "+caller.ID+" is not for the namespace "+a.namespace+" of this node.")
		default:
			serve(w, r, caller)
		}
	}
}

// admins returns a handler for admin tokens of all namespaces.
func (a *nodeAPI) requireGlobalAdmin(serve http.HandlerFunc) http.HandlerFunc {
	return a.requireRole([]token.Role{token.Admin}, func(w http.ResponseWriter, r *http.Request, caller *token.Principal) {
		if !caller.CoversAll() {
			hostguard.WriteProblem(w, http.StatusForbidden, "The token "+caller.ID+" is not for all namespaces.")
			return
		}
		serve(w, r)
	})
}

// authenticate returns the caller, or nil after it has sent an error.
func (a *nodeAPI) authenticate(w http.ResponseWriter, r *http.Request) *token.Principal {
	secret := token.FromRequest(r)
	if secret == "" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="headgate"`)
		hostguard.WriteProblem(w, http.StatusUnauthorized, "Send a token: Authorization: Bearer TOKEN.")
		return nil
	}
	tokens := a.tokens
	if server := a.control.api.Load(); server != nil {
		tokens = server.Tokens()
	} else if !a.hasAdminToken {
		hostguard.WriteProblem(w, http.StatusForbidden,
			"This node knows no tokens: it has no rules service of its own. Start it with --admin-token-file.")
		return nil
	}
	caller, err := tokens.Authenticate(r.Context(), secret, addressOf(r))
	var throttled *token.ThrottledError
	switch {
	case err == nil:
		return caller
	case errors.As(err, &throttled):
		w.Header().Set("Retry-After", strconv.Itoa(int(throttled.RetryAfter/time.Second)+1))
		hostguard.WriteProblem(w, http.StatusTooManyRequests, "Too many logins from your address have failed.")
	case errors.Is(err, token.ErrInvalid):
		hostguard.WriteProblem(w, http.StatusUnauthorized, "There is no such token.")
	default:
		hostguard.WriteProblem(w, http.StatusServiceUnavailable, "The token cannot be checked: "+err.Error()+".")
	}
	return nil
}

func addressOf(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // a Unix socket
	}
	return ap.Addr().Unmap()
}

// A nodeEnforcement is the response of all calls about the enforcement on this node.
type nodeEnforcement struct {
	Namespace string               `json:"namespace"`
	Off       []control.Suspension `json:"off"`
}

func (a *nodeAPI) getEnforcement(w http.ResponseWriter, r *http.Request, _ *token.Principal) {
	if a.checkNamespace(w, r) {
		a.writeEnforcement(w)
	}
}

func (a *nodeAPI) writeEnforcement(w http.ResponseWriter) {
	response := nodeEnforcement{a.namespace, a.enforcement.activeSuspensions()}
	if response.Off == nil {
		response.Off = []control.Suspension{}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(response) // fails only if the caller has disconnected
}

// checkNamespace reports whether the call is for the namespace of this node, or for none. If not, it sends an error.
func (a *nodeAPI) checkNamespace(w http.ResponseWriter, r *http.Request) bool {
	namespace := r.URL.Query().Get("namespace")
	if namespace == "" || namespace == a.namespace {
		return true
	}
	hostguard.WriteProblem(w, http.StatusNotFound,
		"This node has the rules of the namespace "+a.namespace+", not of "+rules.Quote(namespace)+".")
	return false
}

// maxNodeBody is the maximum size of a body in bytes.
const maxNodeBody = 16 << 10

// A switchRequest says which rule to enforce or not. Without a rule, it is all rules of the node.
type switchRequest struct {
	Rule string `json:"rule"`
	For  string `json:"for"`
}

// readSwitch reads the body of a call. If it is invalid, it sends an error and returns false.
func (a *nodeAPI) readSwitch(w http.ResponseWriter, r *http.Request) (request switchRequest, ok bool) {
	if !a.checkNamespace(w, r) {
		return request, false
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxNodeBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil && !errors.Is(err, io.EOF) {
		hostguard.WriteProblem(w, http.StatusBadRequest, "The body is invalid: "+err.Error()+".")
		return request, false
	}
	if request.Rule != "" && !a.enforcement.hasRule(request.Rule) {
		hostguard.WriteProblem(w, http.StatusNotFound, "There is no rule "+rules.Quote(request.Rule)+" on this node.")
		return request, false
	}
	return request, true
}

func (a *nodeAPI) turnOff(w http.ResponseWriter, r *http.Request, caller *token.Principal) {
	request, ok := a.readSwitch(w, r)
	if !ok {
		return
	}
	duration, err := rules.ParseDuration(request.For)
	if err != nil {
		duration = 0
	}
	if want := control.CheckSuspensionTime(duration); want != "" {
		hostguard.WriteProblem(w, http.StatusUnprocessableEntity, "for: got "+rules.Quote(request.For)+", want "+want+".")
		return
	}
	note := r.URL.Query().Get("note")
	if len(note) > rules.MaxText {
		hostguard.WriteProblem(w, http.StatusUnprocessableEntity, "note: want a shorter one.")
		return
	}
	now := a.enforcement.now().UTC().Truncate(time.Second)
	a.enforcement.turnOff(control.Suspension{
		Rule: request.Rule, Since: now, Expires: now.Add(duration), Note: note, By: caller.ID,
	})
	a.writeEnforcement(w)
}

func (a *nodeAPI) turnOn(w http.ResponseWriter, r *http.Request, _ *token.Principal) {
	request, ok := a.readSwitch(w, r)
	if !ok {
		return
	}
	if request.For != "" {
		hostguard.WriteProblem(w, http.StatusUnprocessableEntity, "for: want nothing: enforcement stays on.")
		return
	}
	a.enforcement.turnOn(request.Rule)
	a.writeEnforcement(w)
}

// profileTime is how long a profile may take, beyond the timeout of other calls.
const profileTime = 5 * time.Minute

// extendDeadline returns a handler with the time for a profile of some minutes.
func extendDeadline(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// A connection without deadlines needs none.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(profileTime))
		serve(w, r)
	}
}
