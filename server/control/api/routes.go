package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/api/internal/trafficapi"
	"github.com/headgate/headgate/server/control/token"
)

// The roles that may call a route.
var (
	viewers    = []token.Role{token.Viewer, token.Editor, token.Admin}
	editors    = []token.Role{token.Editor, token.Admin}
	admins     = []token.Role{token.Admin}
	nodeRoles  = []token.Role{token.Node, token.Admin}
	allRoles   = token.Roles
	leaveRoles = []token.Role{token.Editor, token.Admin, token.Node}
)

// A scope is the set of namespaces for which a token must be valid.
type scope uint8

const (
	oneNamespace  scope = iota // the namespace of the call
	allNamespaces              // all namespaces
	anyNamespace               // at least one; the handler returns only data of the token's namespaces
)

// A target is a part of the content that a server may refuse to change, see Config.ReadOnly and Config.NoOverrides.
type target uint8

const (
	noTarget    target = iota
	content            // rules and clients
	overrides          // temporary overrides
	enforcement        // whether rules are enforced
)

// A Route describes a call of the API.
type Route struct {
	// Method and Path are the method and the path of the HTTP request. A segment of the path in braces stands for a value.
	Method, Path string
	// Roles are the roles whose tokens may call it. If empty, no token is needed.
	Roles []token.Role
	// Query are the query parameters besides namespace. "*" stands for any parameter.
	Query []string
	// Content reports whether the call changes rules or clients. A read-only server rejects it, unless it is a dry run.
	Content bool

	repeated string // the query parameter that may have several values
	scope    scope
	target   target
	stream   bool // the response does not end, so HEAD is not supported
	serve    handler
	parts    []string // segments of Path
}

// AllNamespaces reports whether the token must be valid for all namespaces.
func (r *Route) AllNamespaces() bool { return r.scope == allNamespaces }

// OneNamespace reports whether the call is about one namespace, which the query parameter namespace names.
func (r *Route) OneNamespace() bool { return r.scope == oneNamespace }

// A handler serves a route.
type handler func(*Server, *call.Call) error

// trafficCall returns the handler of a call about traffic.
func trafficCall(serve func(*trafficapi.Handlers, *call.Call) error) handler {
	return func(s *Server, c *call.Call) error { return serve(s.trafficCalls, c) }
}

// routes is the table of all routes. The server, the tests and the OpenAPI description use it.
var routes = slices.Concat(
	objectRoutes(control.KindRule), objectRoutes(control.KindClient), objectRoutes(control.KindOverride), []Route{
		route("GET /openapi.json", nil, (*Server).openAPI).in(anyNamespace),
		route("GET /v1/whoami", allRoles, (*Server).whoAmI).in(anyNamespace),
		route("POST /v1/rules:apply", editors, (*Server).applyFile).query("dry_run", "prune", "note").changes(content),
		route("POST /v1/clients:import", editors, (*Server).importClients).query("prune", "note").changes(content),

		route("GET /v1/revisions", viewers, (*Server).listRevisions).query("limit", "cursor", "kind", "id"),
		route("GET /v1/revisions/{n}", viewers, (*Server).getRevision),
		route("GET /v1/revisions/{n}/diff", viewers, (*Server).diffRevisions).query("to"),
		route("POST /v1/revisions/{n}:rollback", editors, (*Server).rollback).changes(content).
			query("all", "dry_run", "note"),
		route("GET /v1/audit", admins, (*Server).listAudit).in(anyNamespace).
			query("namespace", "limit", "cursor", "kind", "id"),

		route("POST /v1/validate", viewers, (*Server).validate),
		route("POST /v1/explain", viewers, (*Server).explain).query("draft"),
		route("GET /v1/keys", viewers, (*Server).getKeys).query("*"),
		route("POST /v1/keys:reset", editors, (*Server).resetKeys).query("note"),
		route("POST /v1/keys:override", editors, createObject(control.KindOverride)).query("note").changes(overrides),

		route("PUT /v1/demo-traffic", editors, (*Server).switchDemoTraffic).in(anyNamespace),
		route("GET /v1/enforcement", viewers, (*Server).getEnforcement).query("all_namespaces"),
		route("POST /v1/enforcement:off", editors, (*Server).enforcementOff).query("note").changes(enforcement),
		route("POST /v1/enforcement:on", editors, (*Server).enforcementOn).query("note").changes(enforcement),

		route("GET /v1/watch", allRoles, (*Server).watch).streams(),
		route("GET /v1/snapshot", nodeRoles, (*Server).getSnapshot).query("since"),
		route("GET /v1/nodes", viewers, (*Server).listNodes).query("all_namespaces"),
		route("PUT /v1/nodes/{id}", nodeRoles, (*Server).heartbeat),
		route("DELETE /v1/nodes/{id}", leaveRoles, (*Server).deleteNode).query("started", "note"),

		route("GET /v1/alerts", viewers, (*Server).listAlerts).query("state", "all_namespaces"),
		route("GET /v1/stores", viewers, (*Server).listStores).query("all_namespaces"),
		route("GET /v1/traffic", viewers, trafficCall((*trafficapi.Handlers).Get)).
			query("rule", "node", "region", "window", "limit", "order").repeats("rule"),
		route("GET /v1/traffic/clients", viewers, trafficCall((*trafficapi.Handlers).GetClients)).
			query("order", "rule", "window", "limit", "q", "series", "*"),
		route("GET /v1/traffic/decisions", viewers, trafficCall((*trafficapi.Handlers).GetDecisions)).
			query("rule", "denied", "limit", "*"),
		route("GET /v1/traffic/live", viewers, trafficCall((*trafficapi.Handlers).Live)).query("rule", "limit").streams(),
		route("POST /v1/whatif", viewers, trafficCall((*trafficapi.Handlers).WhatIf)),
		route("POST /v1/traffic/clients:erase", editors, trafficCall((*trafficapi.Handlers).Erase)).query("note"),
		route("POST /v1/traffic:report", nodeRoles, trafficCall((*trafficapi.Handlers).Report)),

		route("GET /v1/tokens", admins, (*Server).listTokens).query("limit", "cursor").in(anyNamespace),
		route("POST /v1/tokens", admins, (*Server).createToken).query("note").in(anyNamespace),
		route("GET /v1/tokens/{id}", admins, (*Server).getToken).in(anyNamespace),
		route("DELETE /v1/tokens/{id}", admins, (*Server).revokeToken).query("note").in(anyNamespace),

		route("GET /v1/webhooks", admins, (*Server).listWebhooks).query("limit", "cursor"),
		route("POST /v1/webhooks", admins, (*Server).createWebhook).query("note"),
		route("GET /v1/webhooks/{id}", admins, (*Server).getWebhook),
		route("DELETE /v1/webhooks/{id}", admins, (*Server).deleteWebhook).query("note"),
		route("GET /v1/webhooks/{id}/deliveries", admins, (*Server).listDeliveries),
		route("POST /v1/webhooks/{id}/deliveries/{n}:retry", admins, (*Server).retryDelivery).query("note"),
		route("POST /v1/hooks/rules", nil, (*Server).receiveHook).in(anyNamespace), // signed
		route("POST /v1/hooks/keys", nil, (*Server).respondKeys).in(anyNamespace),  // signed

		route("GET /v1/backup", admins, (*Server).backup).in(allNamespaces).streams(),
		route("POST /v1/restore", admins, (*Server).restore).query("replace", "note").in(allNamespaces).changes(content),
	})

// route returns a route of one namespace, for a method and a path such as "GET /v1/rules/{id}".
func route(methodAndPath string, roles []token.Role, serve handler) Route {
	method, path, _ := strings.Cut(methodAndPath, " ")
	return Route{Method: method, Path: path, Roles: roles, serve: serve, parts: strings.Split(path, "/")[1:]}
}

func (r Route) query(names ...string) Route {
	r.Query = names
	return r
}

func (r Route) repeats(name string) Route {
	r.repeated = name
	return r
}

func (r Route) in(s scope) Route {
	r.scope = s
	return r
}

func (r Route) changes(t target) Route {
	r.target, r.Content = t, t == content
	return r
}

func (r Route) streams() Route {
	r.stream = true
	return r
}

// objectRoutes returns the routes to list, read and change the objects of a kind.
func objectRoutes(kind control.Kind) []Route {
	path, changedTarget := " /v1/"+plural(kind), content
	if kind == control.KindOverride {
		changedTarget = overrides
	}
	list := []Route{
		route("GET"+path, viewers, listObjects(kind)).query("q", "limit", "cursor"),
		route("GET"+path+"/{id}", viewers, getObject(kind)),
	}
	for _, change := range []Route{
		route("POST"+path, editors, createObject(kind)),
		route("PUT"+path+"/{id}", editors, putObject(kind)),
		route("PATCH"+path+"/{id}", editors, patchObject(kind)),
		route("DELETE"+path+"/{id}", editors, deleteObject(kind)),
	} {
		list = append(list, change.query("note").changes(changedTarget))
	}
	return list
}

// Routes returns all routes of the API.
func Routes() []Route { return slices.Clone(routes) }

// findRoute returns the route of a call and the values in its path. If only routes with other methods match the path,
// it returns their methods.
func findRoute(method, escaped string) (found *Route, args []string, methods []string) {
	parts := strings.Split(escaped, "/")[1:]
	for i := range parts {
		text, err := url.PathUnescape(parts[i])
		if err != nil || !control.IsText(text) { // no route or object has this name
			return nil, nil, nil
		}
		parts[i] = text
	}
	for i := range routes {
		values, ok := routes[i].match(parts)
		switch {
		case !ok:
		case routes[i].allows(method):
			// Prefer the more specific route, with fewer values.
			if found == nil || len(values) < len(args) {
				found, args = &routes[i], values
			}
		default:
			methods = append(methods, routes[i].Method)
		}
	}
	if found != nil {
		return found, args, nil
	}
	return nil, nil, methods
}

// allows reports whether the route serves a method. Every GET also serves HEAD, unless it is a stream.
func (r *Route) allows(method string) bool {
	return r.Method == method || r.Method == http.MethodGet && method == http.MethodHead && !r.stream
}

// match reports whether a path matches the route, and returns the values of the parts in braces.
func (r *Route) match(parts []string) (values []string, ok bool) {
	if len(parts) != len(r.parts) {
		return nil, false
	}
	for i, pattern := range r.parts {
		if !strings.HasPrefix(pattern, "{") {
			if parts[i] != pattern {
				return nil, false
			}
			continue
		}
		_, verb, _ := strings.Cut(pattern, "}")
		value, matches := strings.CutSuffix(parts[i], verb)
		if !matches || value == "" {
			return nil, false
		}
		if verb == "" && strings.Contains(pattern, "{n}") && strings.Contains(value, ":") { // "7:rollback" is no revision
			return nil, false
		}
		values = append(values, value)
	}
	return values, true
}
