package nodequery

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/internal/secret"
	"github.com/headgate/headgate/server/control/signature"
)

// maxQuery is the maximum size of a query in bytes.
const maxQuery = 64 << 10

// A Responder is the HTTP handler of a node for POST /v1/hooks/keys. It responds only to queries that are signed with
// its key. The rules service knows the key from the heartbeats of the node, which have it as QueryKey. A Responder is
// safe for concurrent use.
type Responder struct {
	key       string
	verifier  *signature.Verifier
	namespace string
	node      Node
	identity  *identity.Identifier
	traffic   TrafficSource // nil if there is none
}

var _ http.Handler = (*Responder)(nil)

// NewResponder returns a Responder with a random key, for a node with the rules of a namespace. id normalizes
// attributes in the same way as the node normalizes attributes of requests. traffic responds to queries for traffic
// statistics. It may be nil.
func NewResponder(node Node, namespace string, id *identity.Identifier, traffic TrafficSource) *Responder {
	key := secret.New()
	return &Responder{
		key: key, verifier: signature.NewVerifier([]byte(key)), namespace: namespace, node: node, identity: id,
		traffic: traffic,
	}
}

// Key returns the key that signs queries.
func (r *Responder) Key() string { return r.key }

func (r *Responder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	response, failure := r.respond(w, request)
	if failure != nil {
		failure.Write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = problem.Encode(w, response) // fails only if the rules service has disconnected
}

func (r *Responder) respond(w http.ResponseWriter, request *http.Request) (*Response, *problem.Error) {
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, problem.New(http.StatusMethodNotAllowed, "Use POST.")
	}
	body, failure := problem.ReadBody(w, request, maxQuery)
	if failure != nil {
		return nil, failure
	}
	if err := r.verifier.Verify(request.Header.Get(signature.Header), body, time.Now()); err != nil {
		return nil, problem.New(http.StatusUnauthorized, "The query is refused: %v.", err)
	}
	var q Query
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, problem.New(http.StatusBadRequest, "The query cannot be read: %v.", err)
	}
	if q.Namespace != r.namespace {
		return nil, problem.New(http.StatusNotFound, "This node has the rules of the namespace %s.", r.namespace)
	}
	if q.Traffic != nil {
		response, err := respondTraffic(r.traffic, q.Node, q.Traffic)
		if err != nil {
			return nil, problem.New(http.StatusNotFound, "The query about traffic failed: %v.", err)
		}
		return response, nil
	}
	if err := q.unseal(r.identity); err != nil {
		return nil, problem.New(http.StatusForbidden, "The query cannot be read: %v.", err)
	}
	client, err := ReadAttributes(r.identity, q.Attributes)
	if err != nil {
		return nil, problem.InvalidInput("attributes", err)
	}
	response, err := respond(request.Context(), r.node, client, &q)
	if err != nil {
		return nil, problem.New(http.StatusConflict, "%v.", err)
	}
	return response, nil
}

// ReadAttributes returns the client with the given attributes. The error is a *headgate.InputError.
func ReadAttributes(id *identity.Identifier, attributes map[string]string) (*identity.Attributes, error) {
	client := new(identity.Attributes)
	return client, id.ReadValues(identity.Values{Attributes: attributes}, client)
}
