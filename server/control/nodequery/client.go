package nodequery

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/outbound"
	"github.com/headgate/headgate/server/control/internal/secret"
	"github.com/headgate/headgate/server/control/signature"
)

const (
	// nodeTimeout limits a query to one node.
	nodeTimeout = 2 * time.Second
	// maxResponse is the maximum size of a response in bytes.
	maxResponse = 4 << 20
)

// Reasons why a node was not queried or sent no valid response. In messages, they follow "node ID: ".
var (
	errAddress           = errors.New("its address is not allowed for a node")
	errBadResponse       = errors.New("its response is not from a node")
	errTooLong           = fmt.Errorf("its response is longer than %d MB", maxResponse>>20)
	errUnknownAttributes = errors.New("it does not identify clients by these attributes")
	errNoSecret          = errors.New("not queried: values that may be secret, such as API keys, are sent to nodes " +
		"only if all have the same --key-secret-file")
	errOtherSecret = errors.New("it has a different --key-secret-file and cannot decrypt the client's attributes")
	errSignature   = errors.New("it rejected the signature: it has just restarted, or its clock is minutes off")
)

// A client sends queries to nodes.
type client struct {
	http     *http.Client
	identity *identity.Identifier
}

func newClient(id *identity.Identifier, config *tls.Config) *client {
	return &client{identity: id, http: outbound.NewClient(outbound.Options{
		Allow: allowNode, Timeout: nodeTimeout, TLS: config, MaxIdleConnsPerHost: 1,
	})}
}

// allowNode returns an error for addresses that must not be queried, because any address can be registered with the
// token of a node. Private addresses are allowed, since nodes have them. Link-local addresses are not, because cloud
// providers serve instance credentials there.
func allowNode(addr netip.Addr) error {
	if addr = addr.Unmap(); addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified() {
		return errAddress
	}
	return nil
}

// hasValidAddress reports whether a node's heartbeat has a valid address, and a key for queries.
func hasValidAddress(n *control.Node) bool {
	u, err := url.Parse(n.Address)
	return err == nil && n.QueryKey != "" && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		u.User == nil && u.Path == "" && u.RawQuery == "" && u.Fragment == ""
}

// query sends a query to one node. The registered address may belong to any server, so query does not reveal a response
// that is not the response of a node.
func (c *client) query(ctx context.Context, n *control.Node, q Query, now time.Time) (*Response, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	q.Node, q.Nonce = n.ID, secret.NewID()
	if err := q.seal(c.identity); err != nil {
		return nil, err
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Address+"/v1/hooks/keys", bytes.NewReader(body))
	if err != nil {
		return nil, errAddress
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Headgate")
	r.Header.Set(signature.Header, signature.Sign([]byte(n.QueryKey), body, now))
	// Without a value, the header is not sent, but net/http retries the request if the node has closed an idle connection.
	r.Header["Idempotency-Key"] = nil
	response, err := c.http.Do(r)
	if err != nil {
		var timeout net.Error
		if ctx.Err() != nil || errors.As(err, &timeout) && timeout.Timeout() {
			return nil, outbound.ErrTimeout
		}
		return nil, outbound.PublicError(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := statusError(response.StatusCode); err != nil {
		return nil, err
	}
	var got Response
	data, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, outbound.ErrTimeout
	case err == nil && len(data) > maxResponse:
		return nil, errTooLong
	case err != nil, json.Unmarshal(data, &got) != nil, got.Node != n.ID:
		return nil, errBadResponse
	}
	return &got, nil
}

// statusError returns the error for the HTTP status of a response, nil for 200.
func statusError(status int) error {
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized:
		return errSignature
	case http.StatusForbidden:
		return errOtherSecret
	case http.StatusUnprocessableEntity:
		return errUnknownAttributes
	case http.StatusConflict:
		return ErrTooManyRules
	default:
		return fmt.Errorf("%w: %d", errBadResponse, status)
	}
}
