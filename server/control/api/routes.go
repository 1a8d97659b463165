package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/token"
)

// The roles of routes, and the query parameters that several routes share.
var (
	viewers    = []token.Role{token.Viewer, token.Editor, token.Admin}
	editors    = []token.Role{token.Editor, token.Admin}
	admins     = []token.Role{token.Admin}
	nodeRoles  = []token.Role{token.Node, token.Admin}
	allRoles   = token.Roles
	leaveRoles = []token.Role{token.Editor, token.Admin, token.Node}
	note       = []string{"note"}
	pageQuery  = []string{"limit", "cursor"}
)

// A scope says for which namespaces a token must be valid.
type scope uint8

const (
	oneNamespace  scope = iota // the namespace of the call
	allNamespaces              // all namespaces
	anyNamespace               // at least one: the handler returns only data of the token's namespaces
)

// A Route describes a call of the API.
type Route struct {
	// Method and Path are those of the HTTP request. A part of the path in braces stands for a value.
	Method, Path string
	// Roles are the roles whose tokens may call it. If empty, no token is needed.
	Roles []token.Role
	// Query are the query parameters besides namespace. "*" stands for any.
	Query []string
	// Content reports whether the call changes rules or clients. A read-only server rejects it, unless it is a dry run.
	Content bool

	scope     scope
	overrides bool // it changes overrides
	suspends  bool // it turns enforcement on or off
	stream    bool // the response does not end, so HEAD is not supported
	serve     handler
	parts     []string // of Path
}

// Everywhere reports whether the token must be valid for all namespaces.
func (r *Route) Everywhere() bool { return r.scope == allNamespaces }

// OneNamespace reports whether the call is about one namespace, the query parameter namespace.
func (r *Route) OneNamespace() bool { return r.scope == oneNamespace }

// A handler serves a route.
type handler func(*Server, *call) error

// routes is the table of all routes. The server, the tests and the OpenAPI description use it.
var routes = prepare(slices.Concat(
	objectRoutes(control.KindRule), objectRoutes(control.KindClient), objectRoutes(control.KindOverride), []Route{
		{Method: "GET", Path: "/openapi.json", scope: anyNamespace, serve: (*Server).openAPI},
		{Method: "GET", Path: "/v1/whoami", Roles: allRoles, scope: anyNamespace, serve: (*Server).whoAmI},
		{
			Method: "POST", Path: "/v1/rules:apply", Roles: editors, Query: []string{"dry_run", "prune", "note"}, Content: true,
			serve: (*Server).applyFile,
		},
		{
			Method: "POST", Path: "/v1/clients:import", Roles: editors, Query: []string{"prune", "note"}, Content: true,
			serve: (*Server).importClients,
		},

		{
			Method: "GET", Path: "/v1/revisions", Roles: viewers, Query: []string{"limit", "cursor", "kind", "id"},
			serve: (*Server).listRevisions,
		},
		{Method: "GET", Path: "/v1/revisions/{n}", Roles: viewers, serve: (*Server).getRevision},
		{
			Method: "GET", Path: "/v1/revisions/{n}/diff", Roles: viewers, Query: []string{"to"},
			serve: (*Server).diffRevisions,
		},
		{
			Method: "POST", Path: "/v1/revisions/{n}:rollback", Roles: editors, Query: []string{"all", "dry_run", "note"},
			Content: true, serve: (*Server).rollback,
		},
		{
			Method: "GET", Path: "/v1/audit", Roles: admins, scope: anyNamespace,
			Query: []string{"namespace", "limit", "cursor", "kind", "id"}, serve: (*Server).listAudit,
		},

		{Method: "POST", Path: "/v1/validate", Roles: viewers, serve: (*Server).validate},
		{Method: "POST", Path: "/v1/explain", Roles: viewers, Query: []string{"draft"}, serve: (*Server).explain},
		{Method: "GET", Path: "/v1/keys", Roles: viewers, Query: []string{"*"}, serve: (*Server).getKeys},
		{Method: "POST", Path: "/v1/keys:reset", Roles: editors, Query: note, serve: (*Server).resetKeys},
		{
			Method: "POST", Path: "/v1/keys:override", Roles: editors, Query: note, overrides: true,
			serve: createObject(control.KindOverride),
		},

		{
			Method: "PUT", Path: "/v1/demo-traffic", Roles: editors, scope: anyNamespace, serve: (*Server).switchDemoTraffic,
		},
		{
			Method: "GET", Path: "/v1/enforcement", Roles: viewers, Query: []string{"all_namespaces"},
			serve: (*Server).getEnforcement,
		},
		{
			Method: "POST", Path: "/v1/enforcement:off", Roles: editors, Query: note, suspends: true,
			serve: (*Server).enforcementOff,
		},
		{
			Method: "POST", Path: "/v1/enforcement:on", Roles: editors, Query: note, suspends: true,
			serve: (*Server).enforcementOn,
		},

		{Method: "GET", Path: "/v1/watch", Roles: allRoles, stream: true, serve: (*Server).watch},
		{Method: "GET", Path: "/v1/snapshot", Roles: nodeRoles, Query: []string{"since"}, serve: (*Server).getSnapshot},
		{Method: "GET", Path: "/v1/nodes", Roles: viewers, serve: (*Server).listNodes},
		{Method: "PUT", Path: "/v1/nodes/{id}", Roles: nodeRoles, serve: (*Server).heartbeat},
		{
			Method: "DELETE", Path: "/v1/nodes/{id}", Roles: leaveRoles, Query: []string{"started", "note"},
			serve: (*Server).deleteNode,
		},

		{
			Method: "GET", Path: "/v1/traffic", Roles: viewers, Query: []string{"rule", "window", "limit"},
			serve: (*Server).getTraffic,
		},
		{
			Method: "GET", Path: "/v1/traffic/clients", Roles: viewers,
			Query: []string{"order", "rule", "window", "limit", "q"}, serve: (*Server).getTrafficClients,
		},
		{
			Method: "GET", Path: "/v1/traffic/live", Roles: viewers, Query: []string{"rule", "limit"}, stream: true,
			serve: (*Server).liveTraffic,
		},
		{Method: "POST", Path: "/v1/traffic/clients:erase", Roles: editors, Query: note, serve: (*Server).eraseTraffic},
		{Method: "POST", Path: "/v1/traffic:report", Roles: nodeRoles, serve: (*Server).reportTraffic},

		{
			Method: "GET", Path: "/v1/tokens", Roles: admins, scope: anyNamespace, Query: pageQuery,
			serve: (*Server).listTokens,
		},
		{
			Method: "POST", Path: "/v1/tokens", Roles: admins, scope: anyNamespace, Query: note,
			serve: (*Server).createToken,
		},
		{Method: "GET", Path: "/v1/tokens/{id}", Roles: admins, scope: anyNamespace, serve: (*Server).getToken},
		{
			Method: "DELETE", Path: "/v1/tokens/{id}", Roles: admins, scope: anyNamespace, Query: note,
			serve: (*Server).revokeToken,
		},

		{Method: "GET", Path: "/v1/webhooks", Roles: admins, Query: pageQuery, serve: (*Server).listWebhooks},
		{Method: "POST", Path: "/v1/webhooks", Roles: admins, Query: note, serve: (*Server).createWebhook},
		{Method: "GET", Path: "/v1/webhooks/{id}", Roles: admins, serve: (*Server).getWebhook},
		{Method: "DELETE", Path: "/v1/webhooks/{id}", Roles: admins, Query: note, serve: (*Server).deleteWebhook},
		{Method: "GET", Path: "/v1/webhooks/{id}/deliveries", Roles: admins, serve: (*Server).listDeliveries},
		{Method: "POST", Path: "/v1/webhooks/{id}/deliveries/{n}:retry", Roles: admins, serve: (*Server).retryDelivery},
		{Method: "POST", Path: "/v1/hooks/rules", scope: anyNamespace, serve: (*Server).receiveHook}, // signed
		{Method: "POST", Path: "/v1/hooks/keys", scope: anyNamespace, serve: (*Server).respondKeys},  // signed

		{Method: "GET", Path: "/v1/backup", Roles: admins, scope: allNamespaces, stream: true, serve: (*Server).backup},
		{
			Method: "POST", Path: "/v1/restore", Roles: admins, scope: allNamespaces, Query: []string{"replace", "note"},
			Content: true, serve: (*Server).restore,
		},
	}))

// objectRoutes returns the routes to list, read and change the objects of a kind.
func objectRoutes(kind control.Kind) []Route {
	all, one := "/v1/"+plural(kind), "/v1/"+plural(kind)+"/{id}"
	list := []Route{
		{Method: "GET", Path: all, Roles: viewers, Query: []string{"q", "limit", "cursor"}, serve: listObjects(kind)},
		{Method: "POST", Path: all, Roles: editors, Query: note, serve: createObject(kind)},
		{Method: "GET", Path: one, Roles: viewers, serve: getObject(kind)},
		{Method: "PUT", Path: one, Roles: editors, Query: note, serve: putObject(kind)},
		{Method: "PATCH", Path: one, Roles: editors, Query: note, serve: patchObject(kind)},
		{Method: "DELETE", Path: one, Roles: editors, Query: note, serve: deleteObject(kind)},
	}
	for i := range list {
		isOverride, changes := kind == control.KindOverride, list[i].Method != http.MethodGet
		list[i].Content, list[i].overrides = changes && !isOverride, changes && isOverride
	}
	return list
}

func prepare(list []Route) []Route {
	for i := range list {
		list[i].parts = strings.Split(list[i].Path, "/")[1:]
	}
	return list
}

// Routes returns all routes of the API.
func Routes() []Route { return slices.Clone(routes) }

// findRoute returns the route of a call and the values in its path. If only routes with other methods match, it returns
// those methods.
func findRoute(method, escaped string) (found *Route, args []string, methods []string) {
	parts := strings.Split(escaped, "/")[1:]
	for i := range parts {
		text, err := url.PathUnescape(parts[i])
		if err != nil || !control.IsText(text) { // no route or object has such a name
			return nil, nil, nil
		}
		parts[i] = text
	}
	for i := range routes {
		values, ok := routes[i].match(parts)
		switch {
		case !ok:
		case routes[i].allows(method):
			// Prefer the route with fewer values.
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
	for i, want := range r.parts {
		if !strings.HasPrefix(want, "{") {
			if parts[i] != want {
				return nil, false
			}
			continue
		}
		_, verb, _ := strings.Cut(want, "}")
		value, matches := strings.CutSuffix(parts[i], verb)
		if !matches || value == "" {
			return nil, false
		}
		if verb == "" && strings.Contains(want, "{n}") && strings.Contains(value, ":") {
			return nil, false
		}
		values = append(values, value)
	}
	return values, true
}
