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

// A nodeAPI serves calls that affect only this node. They work without a rules service, for example while it is
// unreachable: such a node accepts the token of --admin-token-file.
type nodeAPI struct {
	enforcement   *enforcement
	rulesService  *rulesService
	namespace     string
	tokens        *token.Store // accepts only the token of --admin-token-file
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
		enforcement: n.enforcement, rulesService: n.rulesService, namespace: n.config.ControlNamespace(), tokens: tokens,
		hasAdminToken: secret != "",
	}, nil
}

// handler returns a handler that serves the paths of this API and passes all other requests to next.
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

// A nodeHandler serves a call of an authenticated caller.
type nodeHandler func(w http.ResponseWriter, r *http.Request, caller *token.Principal)

// requireRole returns a handler that serves callers whose token has one of the roles and is valid for the namespace of
// this node.
func (a *nodeAPI) requireRole(roles []token.Role, serve nodeHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller := a.authenticate(w, r)
		switch {
		case caller == nil: // the response was sent
		case !slices.Contains(roles, caller.Role):
			hostguard.WriteProblem(w, http.StatusForbidden, "The token "+caller.ID+" has the role "+string(caller.Role)+
				". This call requires the role "+token.JoinRoles(roles)+".")
		case !caller.Covers(a.namespace):
			hostguard.WriteProblem(w, http.StatusForbidden,
				"The token "+caller.ID+" is not valid for the namespace "+a.namespace+" of this node.")
		default:
			serve(w, r, caller)
		}
	}
}

// requireGlobalAdmin returns a handler that serves callers with an admin token that is valid for all namespaces.
func (a *nodeAPI) requireGlobalAdmin(serve http.HandlerFunc) http.HandlerFunc {
	return a.requireRole([]token.Role{token.Admin}, func(w http.ResponseWriter, r *http.Request, caller *token.Principal) {
		if !caller.CoversAll() {
			hostguard.WriteProblem(w, http.StatusForbidden, "The token "+caller.ID+" is not valid for all namespaces.")
			return
		}
		serve(w, r)
	})
}

// authenticate returns the caller. If the token is not accepted, it sends an error and returns nil.
func (a *nodeAPI) authenticate(w http.ResponseWriter, r *http.Request) *token.Principal {
	secret := token.FromRequest(r)
	if secret == "" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="headgate"`)
		hostguard.WriteProblem(w, http.StatusUnauthorized, "Send a token: Authorization: Bearer TOKEN.")
		return nil
	}
	// A node with its own rules service accepts the tokens of that service; other nodes accept only the token of
	// --admin-token-file.
	var tokens *token.Store
	server := a.rulesService.api.Load()
	switch {
	case server != nil:
		tokens = server.Tokens()
	case a.hasAdminToken:
		tokens = a.tokens
	default:
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

// A nodeEnforcement is the response to all calls about enforcement on this node.
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

// checkNamespace reports whether the call names the namespace of this node, or no namespace. Otherwise it sends an
// error.
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

// A switchRequest is the body of enforcement:on and enforcement:off.
type switchRequest struct {
	Rule string `json:"rule"` // the id of a rule, or "" for all rules of the node
	For  string `json:"for"`  // how long enforcement stays off, for enforcement:off
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
		duration = 0 // CheckSuspensionTime refuses it
	}
	if want := control.CheckSuspensionTime(duration); want != "" {
		hostguard.WriteProblem(w, http.StatusUnprocessableEntity, "for: got "+rules.Quote(request.For)+", want "+want+".")
		return
	}
	note := r.URL.Query().Get("note")
	if len(note) > rules.MaxText {
		hostguard.WriteProblem(w, http.StatusUnprocessableEntity,
			"note: want at most "+strconv.Itoa(rules.MaxText)+" bytes.")
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
		hostguard.WriteProblem(w, http.StatusUnprocessableEntity,
			"for: must not be set: enforcement stays on without a time limit.")
		return
	}
	a.enforcement.turnOn(request.Rule)
	a.writeEnforcement(w)
}

// profileTime is the timeout of a response with a profile, which takes longer than other responses.
const profileTime = 5 * time.Minute

// extendDeadline returns a handler that has profileTime to write its response.
func extendDeadline(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// An error means that the connection has no deadlines. Then there is nothing to extend.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(profileTime))
		serve(w, r)
	}
}
