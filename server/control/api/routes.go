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
	noToken    []token.Role // the call is signed, or public
	note       = []string{"note"}
	pageQuery  = []string{"limit", "cursor"}
	listQuery  = []string{"q", "limit", "cursor"}
	applyQuery = []string{"dry_run", "prune", "note"}
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
	// Everywhere reports whether the token must be valid for all namespaces.
	Everywhere bool
	// OneNamespace reports whether the call is about one namespace, the query parameter namespace.
	OneNamespace bool
	// Query are the query parameters besides namespace.
	Query []string
	// Content reports whether the call changes rules or clients. A read-only server rejects it, unless it is a dry run.
	Content bool
}

// A route is a Route and its handler.
type route struct {
	method, path string
	roles        []token.Role
	scope        scope
	query        []string // "*" for any
	content      bool     // it changes rules or clients
	overrides    bool     // it changes overrides
	stream       bool     // the response does not end, so HEAD is not supported
	serve        func(*Server, *call) error

	parts []string
}

// routes is the table of all routes. The server, the tests and the OpenAPI description use it.
var routes = prepare([]route{
	{method: "GET", path: "/openapi.json", scope: anyNamespace, serve: (*Server).openAPI},
	{method: "GET", path: "/v1/whoami", roles: allRoles, scope: anyNamespace, serve: (*Server).whoAmI},

	{method: "GET", path: "/v1/rules", roles: viewers, query: listQuery, serve: listObjects(control.KindRule)},
	{
		method: "POST", path: "/v1/rules", roles: editors, query: note, content: true,
		serve: createObject(control.KindRule),
	},
	{method: "GET", path: "/v1/rules/{id}", roles: viewers, serve: getObject(control.KindRule)},
	{
		method: "PUT", path: "/v1/rules/{id}", roles: editors, query: note, content: true,
		serve: putObject(control.KindRule),
	},
	{
		method: "PATCH", path: "/v1/rules/{id}", roles: editors, query: note, content: true,
		serve: patchObject(control.KindRule),
	},
	{
		method: "DELETE", path: "/v1/rules/{id}", roles: editors, query: note, content: true,
		serve: deleteObject(control.KindRule),
	},
	{
		method: "POST", path: "/v1/rules:apply", roles: editors, query: applyQuery, content: true,
		serve: (*Server).applyFile,
	},

	{method: "GET", path: "/v1/clients", roles: viewers, query: listQuery, serve: listObjects(control.KindClient)},
	{
		method: "POST", path: "/v1/clients", roles: editors, query: note, content: true,
		serve: createObject(control.KindClient),
	},
	{method: "GET", path: "/v1/clients/{id}", roles: viewers, serve: getObject(control.KindClient)},
	{
		method: "PUT", path: "/v1/clients/{id}", roles: editors, query: note, content: true,
		serve: putObject(control.KindClient),
	},
	{
		method: "PATCH", path: "/v1/clients/{id}", roles: editors, query: note, content: true,
		serve: patchObject(control.KindClient),
	},
	{
		method: "DELETE", path: "/v1/clients/{id}", roles: editors, query: note, content: true,
		serve: deleteObject(control.KindClient),
	},
	{
		method: "POST", path: "/v1/clients:import", roles: editors, query: []string{"prune", "note"}, content: true,
		serve: (*Server).importClients,
	},

	{method: "GET", path: "/v1/overrides", roles: viewers, query: listQuery, serve: listObjects(control.KindOverride)},
	{
		method: "POST", path: "/v1/overrides", roles: editors, query: note, overrides: true,
		serve: createObject(control.KindOverride),
	},
	{method: "GET", path: "/v1/overrides/{id}", roles: viewers, serve: getObject(control.KindOverride)},
	{
		method: "PUT", path: "/v1/overrides/{id}", roles: editors, query: note, overrides: true,
		serve: putObject(control.KindOverride),
	},
	{
		method: "PATCH", path: "/v1/overrides/{id}", roles: editors, query: note, overrides: true,
		serve: patchObject(control.KindOverride),
	},
	{
		method: "DELETE", path: "/v1/overrides/{id}", roles: editors, query: note, overrides: true,
		serve: deleteObject(control.KindOverride),
	},

	{
		method: "GET", path: "/v1/revisions", roles: viewers, query: []string{"limit", "cursor", "kind", "id"},
		serve: (*Server).listRevisions,
	},
	{method: "GET", path: "/v1/revisions/{n}", roles: viewers, serve: (*Server).getRevision},
	{
		method: "GET", path: "/v1/revisions/{n}/diff", roles: viewers, query: []string{"to"},
		serve: (*Server).diffRevisions,
	},
	{
		method: "POST", path: "/v1/revisions/{n}:rollback", roles: editors, query: []string{"all", "dry_run", "note"},
		content: true, serve: (*Server).rollback,
	},
	{
		method: "GET", path: "/v1/audit", roles: admins, scope: anyNamespace,
		query: []string{"namespace", "limit", "cursor", "kind", "id"}, serve: (*Server).listAudit,
	},

	{method: "POST", path: "/v1/validate", roles: viewers, serve: (*Server).validate},
	{method: "POST", path: "/v1/explain", roles: viewers, query: []string{"draft"}, serve: (*Server).explain},
	{method: "GET", path: "/v1/keys", roles: viewers, query: []string{"*"}, serve: (*Server).getKeys},
	{method: "POST", path: "/v1/keys:reset", roles: editors, query: note, serve: (*Server).resetKeys},
	{
		method: "POST", path: "/v1/keys:override", roles: editors, query: note, overrides: true,
		serve: createObject(control.KindOverride),
	},

	{method: "GET", path: "/v1/watch", roles: allRoles, stream: true, serve: (*Server).watch},
	{method: "GET", path: "/v1/snapshot", roles: nodeRoles, query: []string{"since"}, serve: (*Server).getSnapshot},
	{method: "GET", path: "/v1/nodes", roles: viewers, serve: (*Server).listNodes},
	{method: "PUT", path: "/v1/nodes/{id}", roles: nodeRoles, serve: (*Server).heartbeat},
	{
		method: "DELETE", path: "/v1/nodes/{id}", roles: leaveRoles, query: []string{"started", "note"},
		serve: (*Server).deleteNode,
	},

	{
		method: "GET", path: "/v1/tokens", roles: admins, scope: anyNamespace, query: pageQuery,
		serve: (*Server).listTokens,
	},
	{
		method: "POST", path: "/v1/tokens", roles: admins, scope: anyNamespace, query: note,
		serve: (*Server).createToken,
	},
	{method: "GET", path: "/v1/tokens/{id}", roles: admins, scope: anyNamespace, serve: (*Server).getToken},
	{
		method: "DELETE", path: "/v1/tokens/{id}", roles: admins, scope: anyNamespace, query: note,
		serve: (*Server).revokeToken,
	},

	{method: "GET", path: "/v1/webhooks", roles: admins, query: pageQuery, serve: (*Server).listWebhooks},
	{method: "POST", path: "/v1/webhooks", roles: admins, query: note, serve: (*Server).createWebhook},
	{method: "GET", path: "/v1/webhooks/{id}", roles: admins, serve: (*Server).getWebhook},
	{method: "DELETE", path: "/v1/webhooks/{id}", roles: admins, query: note, serve: (*Server).deleteWebhook},
	{method: "GET", path: "/v1/webhooks/{id}/deliveries", roles: admins, serve: (*Server).listDeliveries},
	{method: "POST", path: "/v1/webhooks/{id}/deliveries/{n}:retry", roles: admins, serve: (*Server).retryDelivery},
	{method: "POST", path: "/v1/hooks/rules", roles: noToken, scope: anyNamespace, serve: (*Server).receiveHook},
	{method: "POST", path: "/v1/hooks/keys", roles: noToken, scope: anyNamespace, serve: (*Server).respondKeys},

	{method: "GET", path: "/v1/backup", roles: admins, scope: allNamespaces, stream: true, serve: (*Server).backup},
	{
		method: "POST", path: "/v1/restore", roles: admins, scope: allNamespaces, query: []string{"replace", "note"},
		content: true, serve: (*Server).restore,
	},
})

func prepare(list []route) []route {
	for i := range list {
		list[i].parts = strings.Split(list[i].path, "/")[1:]
	}
	return list
}

// Routes returns all routes of the API.
func Routes() []Route {
	list := make([]Route, len(routes))
	for i := range routes {
		r := &routes[i]
		list[i] = Route{
			Method: r.method, Path: r.path, Roles: slices.Clone(r.roles), Everywhere: r.scope == allNamespaces,
			OneNamespace: r.scope == oneNamespace, Query: slices.Clone(r.query), Content: r.content,
		}
	}
	return list
}

// findRoute returns the route of a call and the values in its path. If only routes with other methods match, it returns
// those methods.
func findRoute(method, escaped string) (found *route, args []string, methods []string) {
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
			methods = append(methods, routes[i].method)
		}
	}
	if found != nil {
		return found, args, nil
	}
	return nil, nil, methods
}

// allows reports whether the route serves a method. Every GET also serves HEAD, unless it is a stream.
func (r *route) allows(method string) bool {
	return r.method == method || r.method == http.MethodGet && method == http.MethodHead && !r.stream
}

// match reports whether a path matches the route, and returns the values of the parts in braces.
func (r *route) match(parts []string) (values []string, ok bool) {
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
		value, has := strings.CutSuffix(parts[i], verb)
		if !has || value == "" {
			return nil, false
		}
		if verb == "" && strings.Contains(want, "{n}") && strings.Contains(value, ":") {
			return nil, false
		}
		values = append(values, value)
	}
	return values, true
}
