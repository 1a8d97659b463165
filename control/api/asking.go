package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
)

// Limits of a poll, which asks nodes about a client.
const (
	// maxAsked is the maximum number of nodes to ask, atOnce the number of concurrent requests.
	maxAsked = 1000
	atOnce   = 32
	// nodeTimeout is for one node, pollTimeout for all of them.
	nodeTimeout = 2 * time.Second
	pollTimeout = 10 * time.Second
	// silentAfter is the time without a heartbeat after which a node is not asked. It is a multiple of nodeTold, because
	// heartbeats are written to the database only that often.
	silentAfter = 3 * nodeTold
	// maxAnswer is the maximum size of a response in bytes.
	maxAnswer = 4 << 20
	// maxStoreTries is the maximum number of nodes with the same store to try until one responds.
	maxStoreTries = 3
)

// An asker sends questions about clients to nodes.
type asker struct {
	client   *http.Client
	identity *identity.Identifier
}

func newAsker(c *Config) *asker {
	dialer := &net.Dialer{Timeout: nodeTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		// Anyone with a node's token can register any address. Private addresses are allowed, since nodes have them.
		// Link-local addresses are not: cloud providers serve instance credentials there.
		ap, err := netip.ParseAddrPort(address)
		if addr := ap.Addr().Unmap(); err != nil || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified() {
			return errBadAddress
		}
		return nil
	}}
	return &asker{identity: c.Identifier, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: c.NodeTLS, TLSHandshakeTimeout: nodeTimeout, ResponseHeaderTimeout: nodeTimeout,
			MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
		},
	}}
}

func (a *asker) close() { a.client.CloseIdleConnections() }

// Reasons why a node was not asked or gave no valid response. They are shown after "node ID: ".
var (
	errBadAddress        = errors.New("its address is not allowed for a node")
	errNoAddress         = errors.New("it cannot be asked: its admin listener is off, or on loopback of another host; set --admin-addr")
	errSilent            = errors.New("it sends no heartbeats, and was not asked")
	errTooManyNodes      = fmt.Errorf("not asked: there are more than %d nodes", maxAsked)
	errTooLate           = errors.New("it did not respond in time")
	errBadAnswer         = errors.New("its response is not that of a node")
	errTooLong           = fmt.Errorf("its response is longer than %d MB", maxAnswer>>20)
	errUnknownAttributes = errors.New("it does not identify clients by these attributes")
	errNoSecret          = errors.New("not asked: values that may be secret, such as API keys, are sent to nodes only if all have the same --key-secret-file")
	errOtherSecret       = errors.New("it has a different --key-secret-file and cannot decrypt the client's attributes")
	errStoreUnanswered   = errors.New("not asked: the other nodes with its store do not respond")
	errRefused           = errors.New("it rejected the signature: it has just restarted, or its clock is minutes off")
)

// ask asks one node. The address may belong to any server, so ask returns nothing of a response that is not a node's.
func (a *asker) ask(ctx context.Context, n *control.Node, q question, now time.Time) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	q.Node, q.Once = n.ID, newSecret()[:16]
	if err := q.seal(a.identity); err != nil {
		return nil, err
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Address+"/v1/hooks/keys", bytes.NewReader(body))
	if err != nil {
		return nil, errBadAddress
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Headgate")
	r.Header.Set(SignatureHeader, Sign([]byte(n.AskKey), body, now))
	r.Header["Idempotency-Key"] = nil // not sent, but lets net/http retry if the node has closed an idle connection
	response, err := a.client.Do(r)
	var late interface{ Timeout() bool }
	switch {
	case ctx.Err() != nil, errors.As(err, &late) && late.Timeout():
		return nil, errTooLate
	case err != nil:
		return nil, faultOf(err)
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, errRefused
	case http.StatusForbidden:
		return nil, errOtherSecret
	case http.StatusUnprocessableEntity:
		return nil, errUnknownAttributes
	case http.StatusConflict:
		return nil, errTooManyRules
	default:
		return nil, fmt.Errorf("%w: %d", errBadAnswer, response.StatusCode)
	}
	var got answer
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, errTooLate
	case err == nil && len(data) > maxAnswer:
		return nil, errTooLong
	case err != nil, json.Unmarshal(data, &got) != nil, got.Node != n.ID:
		return nil, errBadAnswer
	}
	return &got, nil
}

// A polledNode is a node of a poll, and the result of asking it.
type polledNode struct {
	node   *control.Node
	own    bool // the node is in this process
	asked  bool
	answer *answer // nil if there is none
	err    error   // why there is none; nil if another node answered for the store
}

// A poll asks the nodes of a namespace about one client.
type poll struct {
	server *Server
	who    rules.Subject // as this process sees the client
	nodes  []*polledNode
	more   int // number of nodes above maxAsked, if positive
}

// newPoll lists the nodes of a namespace, without asking them yet.
func (s *Server) newPoll(ctx context.Context, namespace string, who rules.Subject) (*poll, error) {
	p := &poll{server: s, who: who}
	list, err := s.nodes(ctx, namespace)
	if err != nil {
		return nil, err
	}
	own := s.config.Node != nil && s.config.NodeNamespace == namespace
	now := s.config.Now()
	for i := range list {
		n := &list[i]
		added := &polledNode{node: n, own: own && n.ID == s.config.NodeID}
		switch {
		case added.own:
			own = false
		case now.Sub(n.Seen) > silentAfter:
			added.err = errSilent
		case !askable(n):
			added.err = errNoAddress
		}
		p.nodes = append(p.nodes, added)
	}
	if own { // the node in this process sends no heartbeats, or none yet
		p.nodes = append(p.nodes, &polledNode{own: true, node: &control.Node{ID: cmp.Or(s.config.NodeID, "here"), Namespace: namespace}})
	}
	// The node in this process comes first, then the other nodes to ask; the latest heartbeats first.
	slices.SortStableFunc(p.nodes, func(a, b *polledNode) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), b.node.Seen.Compare(a.node.Seen))
	})
	if p.more = len(p.nodes) - maxAsked; p.more > 0 {
		for _, n := range p.nodes[maxAsked:] {
			n.err = errTooManyNodes
		}
	}
	return p, nil
}

// rank orders the nodes of a poll, lowest first.
func (n *polledNode) rank() int {
	switch {
	case n.own:
		return 0
	case n.err == nil:
		return 1
	}
	return 2
}

// askable reports whether a node's heartbeat has a valid address and a key for questions.
func askable(n *control.Node) bool {
	u, err := url.Parse(n.Address)
	return err == nil && n.AskKey != "" && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil &&
		u.Path == "" && u.RawQuery == "" && u.Fragment == ""
}

// byStore groups the nodes to ask by the store that they share. A node that counts in memory is its own group.
func (p *poll) byStore() [][]*polledNode {
	var groups [][]*polledNode
	index := map[string]int{}
	for _, n := range p.nodes {
		if n.err != nil {
			continue
		}
		i, known := index[n.node.Counters]
		if n.node.Counters == "" || !known {
			index[n.node.Counters] = len(groups)
			groups = append(groups, []*polledNode{n})
			continue
		}
		groups[i] = append(groups[i], n)
	}
	return groups
}

// askNode asks one node and stores its answer.
func (p *poll) askNode(ctx context.Context, n *polledNode, q question) {
	n.asked = true
	if n.own {
		q.Node = n.node.ID
		n.answer, n.err = answerFrom(ctx, p.server.config.Node, p.who, &q)
		return
	}
	n.answer, n.err = p.server.asker.ask(ctx, n.node, q, p.server.config.Now())
}

// inParallel calls do for each element, in at most atOnce goroutines, and waits for all of them.
func inParallel[T any](list []T, do func(T)) {
	var group sync.WaitGroup
	running := make(chan struct{}, atOnce)
	for _, element := range list {
		running <- struct{}{}
		group.Go(func() {
			defer func() { <-running }()
			do(element)
		})
	}
	group.Wait()
}

// ask asks all nodes. Of the nodes that share a store, one answers for all. The others are asked only about rules that
// each node counts in its own memory.
func (p *poll) ask(ctx context.Context, q question) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	type task struct {
		node *polledNode
		q    question
	}
	var rest []task
	var mu sync.Mutex
	inParallel(p.byStore(), func(sharing []*polledNode) {
		local, ok := p.askStore(ctx, sharing, q)
		mu.Lock()
		defer mu.Unlock()
		for _, n := range sharing {
			switch {
			case n.asked:
			case !ok:
				n.err = errStoreUnanswered
			case len(local) > 0:
				aboutLocal := q
				aboutLocal.Rules = local
				rest = append(rest, task{n, aboutLocal})
			}
		}
	})
	inParallel(rest, func(t task) { p.askNode(ctx, t.node, t.q) })
}

// askStore asks one of the nodes that share a store. It returns the IDs of the rules that each node counts in its own
// memory, or false if no node answers. A failed reset is not tried again on another node: the first node may have done it.
func (p *poll) askStore(ctx context.Context, sharing []*polledNode, q question) (local []string, ok bool) {
	if len(sharing) == 1 {
		p.askNode(ctx, sharing[0], q)
		return nil, true
	}
	readOnly := q
	readOnly.Reset = false
	for _, n := range sharing[:min(len(sharing), maxStoreTries)] {
		if p.askNode(ctx, n, readOnly); n.err != nil {
			continue
		}
		for _, k := range n.answer.Keys {
			if k.Mode != rules.Exact.String() && !slices.Contains(local, k.ID) {
				local = append(local, k.ID)
			}
		}
		if q.Reset {
			p.askNode(ctx, n, q)
		}
		return local, true
	}
	return nil, false
}

// answered returns the nodes that answered.
func (p *poll) answered() []*polledNode {
	return slices.DeleteFunc(slices.Clone(p.nodes), func(n *polledNode) bool { return n.answer == nil })
}

// A nodeView is the result of asking a node, as the API shows it.
type nodeView struct {
	ID       string `json:"id"`
	Region   string `json:"region,omitempty"`
	Address  string `json:"address,omitempty"`
	Counters string `json:"counters,omitempty"`
	// State is answered, shared (another node with the same store has answered), failed or silent.
	State string `json:"state"`
	Error string `json:"error,omitempty"`
}

// views returns the result of each node, and the failures in one line. A silent node is not a failure.
func (p *poll) views() (list []nodeView, failures string) {
	list = []nodeView{}
	var failed []string
	for _, n := range p.nodes {
		v := nodeView{ID: n.node.ID, Region: n.node.Region, Address: n.node.Address, Counters: n.node.Counters}
		switch {
		case n.answer != nil && n.answer.Error != "":
			v.State, v.Error = "failed", n.answer.Error
		case n.answer != nil:
			v.State = "answered"
		case errors.Is(n.err, errSilent):
			v.State, v.Error = "silent", errSilent.Error()+"; last heartbeat at "+n.node.Seen.UTC().Format(time.RFC3339)
		case n.err != nil:
			v.State, v.Error = "failed", n.err.Error()
		default:
			v.State = "shared"
		}
		if v.State == "failed" {
			failed = append(failed, "node "+v.ID+": "+v.Error)
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b nodeView) int { return strings.Compare(a.ID, b.ID) })
	slices.Sort(failed)
	const maxShown = 10
	if len(failed) > maxShown {
		failed = append(failed[:maxShown], fmt.Sprintf("and %d more", len(failed)-maxShown))
	}
	return list, strings.Join(failed, "; ")
}
