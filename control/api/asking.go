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

// Bounds of asking nodes about a client.
const (
	// maxAsked is how many nodes are asked at most, atOnce how many of them at the same time.
	maxAsked = 1000
	atOnce   = 32
	// nodeTime is how long one may take, askTime how long all of them may.
	nodeTime = 2 * time.Second
	askTime  = 10 * time.Second
	// nodeSilent is after how long without a heartbeat a node is taken for gone, and not asked: the database may be told of one
	// only once in nodeTold.
	nodeSilent = 3 * nodeTold
	// maxAnswer is how long an answer may be.
	maxAnswer = 4 << 20
	// maxSpokesmen is how many of those that share a store are asked for all of them until one answers.
	maxSpokesmen = 3
)

// An asker asks nodes.
type asker struct {
	client   *http.Client
	identity *identity.Identifier
}

func newAsker(c *Config) *asker {
	dialer := &net.Dialer{Timeout: nodeTime, Control: func(_, address string, _ syscall.RawConn) error {
		// Whoever has a node's token may say that it is anywhere. Nodes are on private networks, but none is at an address of the
		// link, where clouds tell secrets.
		ap, err := netip.ParseAddrPort(address)
		if addr := ap.Addr().Unmap(); err != nil || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified() {
			return errNoNode
		}
		return nil
	}}
	return &asker{identity: c.Identifier, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: c.NodeTLS, TLSHandshakeTimeout: nodeTime, ResponseHeaderTimeout: nodeTime,
			MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
		},
	}}
}

func (a *asker) close() { a.client.CloseIdleConnections() }

// What may keep a node from being asked.
var (
	errNoNode   = errors.New("no address of a node")
	errNoWay    = errors.New("it cannot be asked: its admin listener is off, or on loopback of another host; give it --admin-addr")
	errSilent   = errors.New("it is silent, and taken for gone")
	errEnough   = fmt.Errorf("not asked: there are more than %d nodes", maxAsked)
	errTooLate  = errors.New("it did not answer in time")
	errNoAnswer = errors.New("it did not answer as a node does")
	errTooLong  = fmt.Errorf("its answer is longer than %d MB", maxAnswer>>20)
	errUnknown  = errors.New("it does not know clients by these attributes")
	errNoSecret = errors.New("not asked: values that may be secret, such as API keys, are sent to nodes only if all have the same --key-secret-file")

	errOtherSecret = errors.New("it has another --key-secret-file, so it cannot read which client is meant")

	errOthers  = errors.New("not asked: those that share its store do not answer")
	errRefused = errors.New("it refused the question: it was started anew just now, or its clock is minutes off")
)

// ask asks one node. Of what it answers nothing is told but what a node says: the address may be anybody's.
func (a *asker) ask(ctx context.Context, n *control.Node, q question, now time.Time) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTime)
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
		return nil, errNoNode
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Headgate")
	r.Header.Set(SignatureHeader, Sign([]byte(n.AskKey), body, now))
	r.Header["Idempotency-Key"] = nil // not sent; says that the call may be repeated if the node has closed an idle connection
	got, err := a.client.Do(r)
	var late interface{ Timeout() bool }
	switch {
	case ctx.Err() != nil, errors.As(err, &late) && late.Timeout():
		return nil, errTooLate
	case err != nil:
		return nil, faultOf(err)
	}
	defer func() { _ = got.Body.Close() }()
	switch got.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, errRefused
	case http.StatusForbidden:
		return nil, errOtherSecret
	case http.StatusUnprocessableEntity:
		return nil, errUnknown
	case http.StatusConflict:
		return nil, errTooManyRules
	default:
		return nil, fmt.Errorf("%w: %d", errNoAnswer, got.StatusCode)
	}
	var made answer
	data, err := io.ReadAll(io.LimitReader(got.Body, maxAnswer+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, errTooLate
	case err == nil && len(data) > maxAnswer:
		return nil, errTooLong
	case err != nil, json.Unmarshal(data, &made) != nil, made.Node != n.ID:
		return nil, errNoAnswer
	}
	return &made, nil
}

// A polled is a node that was to be asked, and what came of it.
type polled struct {
	node   *control.Node
	own    bool // it is in this process
	asked  bool
	answer *answer // nil if it did not
	err    error
}

// A poll asks the nodes of a namespace about one client.
type poll struct {
	server *Server
	who    rules.Subject // as this process sees the client
	nodes  []*polled
	more   int // beyond maxAsked
}

// newPoll finds the nodes of a namespace. Nobody is asked yet.
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
		made := &polled{node: n, own: own && n.ID == s.config.NodeID}
		switch {
		case made.own:
			own = false
		case now.Sub(n.Seen) > nodeSilent:
			made.err = errSilent
		case !askable(n):
			made.err = errNoWay
		}
		p.nodes = append(p.nodes, made)
	}
	if own { // it has not said anything yet, or never does
		p.nodes = append(p.nodes, &polled{own: true, node: &control.Node{ID: cmp.Or(s.config.NodeID, "here"), Namespace: namespace}})
	}
	// Those that can be asked come first, this one before all, and then who was heard of last.
	slices.SortStableFunc(p.nodes, func(a, b *polled) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), b.node.Seen.Compare(a.node.Seen))
	})
	if p.more = len(p.nodes) - maxAsked; p.more > 0 {
		for _, n := range p.nodes[maxAsked:] {
			n.err = errEnough
		}
	}
	return p, nil
}

// rank is who is asked before others.
func (n *polled) rank() int {
	switch {
	case n.own:
		return 0
	case n.err == nil:
		return 1
	}
	return 2
}

// askable tells whether a node has said where and how to ask it.
func askable(n *control.Node) bool {
	u, err := url.Parse(n.Address)
	return err == nil && n.AskKey != "" && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil &&
		u.Path == "" && u.RawQuery == "" && u.Fragment == ""
}

// stores returns those that can be asked by the store that they share; each that counts by itself is alone.
func (p *poll) stores() [][]*polled {
	var list [][]*polled
	at := map[string]int{}
	for _, n := range p.nodes {
		if n.err != nil {
			continue
		}
		i, known := at[n.node.Counters]
		if n.node.Counters == "" || !known {
			at[n.node.Counters] = len(list)
			list = append(list, []*polled{n})
			continue
		}
		list[i] = append(list[i], n)
	}
	return list
}

// one asks one node.
func (p *poll) one(ctx context.Context, n *polled, q question) {
	n.asked = true
	if n.own {
		q.Node = n.node.ID
		n.answer, n.err = answerFrom(ctx, p.server.config.Node, p.who, &q)
		return
	}
	n.answer, n.err = p.server.asker.ask(ctx, n.node, q, p.server.config.Now())
}

// each calls do for several at once.
func each[T any](list []T, do func(T)) {
	var group sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for _, one := range list {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			do(one)
		})
	}
	group.Wait()
}

// ask asks all of them. Of those that share a store one speaks for all, but for what each of them counts by itself.
func (p *poll) ask(ctx context.Context, q question) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	type task struct {
		node *polled
		q    question
	}
	var rest []task
	var mu sync.Mutex
	each(p.stores(), func(sharing []*polled) {
		own, ok := p.spokesman(ctx, sharing, q)
		mu.Lock()
		defer mu.Unlock()
		for _, n := range sharing {
			switch {
			case n.asked:
			case !ok:
				n.err = errOthers
			case len(own) > 0:
				mine := q
				mine.Rules = own
				rest = append(rest, task{n, mine})
			}
		}
	})
	each(rest, func(t task) { p.one(ctx, t.node, t.q) })
}

// spokesman has one of those that share a store answer for all, and returns the rules that each of them counts by itself. It is not
// ok if none does. Nobody is asked to forget a client in place of one who did not answer: that one may have done it.
func (p *poll) spokesman(ctx context.Context, sharing []*polled, q question) (own []string, ok bool) {
	if len(sharing) == 1 { // it speaks for itself
		p.one(ctx, sharing[0], q)
		return nil, true
	}
	look := q
	look.Reset = false
	for _, n := range sharing[:min(len(sharing), maxSpokesmen)] {
		if p.one(ctx, n, look); n.err != nil {
			continue
		}
		for _, k := range n.answer.Keys {
			if k.Mode != rules.Exact.String() && !slices.Contains(own, k.ID) {
				own = append(own, k.ID)
			}
		}
		if q.Reset {
			p.one(ctx, n, q)
		}
		return own, true
	}
	return nil, false
}

// answered returns those that answered.
func (p *poll) answered() []*polled {
	return slices.DeleteFunc(slices.Clone(p.nodes), func(n *polled) bool { return n.answer == nil })
}

// A nodeView is what became of asking a node.
type nodeView struct {
	ID       string `json:"id"`
	Region   string `json:"region,omitempty"`
	Address  string `json:"address,omitempty"`
	Counters string `json:"counters,omitempty"`
	// State is answered, shared (another one has answered for the store), failed or silent.
	State string `json:"state"`
	Error string `json:"error,omitempty"`
}

// views returns what became of asking each, and what went wrong in one line: that nodes are gone is nothing wrong.
func (p *poll) views() (list []nodeView, wrong string) {
	list = []nodeView{}
	var words []string
	for _, n := range p.nodes {
		v := nodeView{ID: n.node.ID, Region: n.node.Region, Address: n.node.Address, Counters: n.node.Counters}
		switch {
		case n.answer != nil && n.answer.Error != "":
			v.State, v.Error = "failed", n.answer.Error
		case n.answer != nil:
			v.State = "answered"
		case errors.Is(n.err, errSilent):
			v.State, v.Error = "silent", errSilent.Error()+"; last heard of at "+n.node.Seen.UTC().Format(time.RFC3339)
		case n.err != nil:
			v.State, v.Error = "failed", n.err.Error()
		default:
			v.State = "shared"
		}
		if v.State == "failed" {
			words = append(words, "node "+v.ID+": "+v.Error)
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b nodeView) int { return strings.Compare(a.ID, b.ID) })
	slices.Sort(words)
	const most = 10
	if len(words) > most {
		words = append(words[:most], fmt.Sprintf("and %d more", len(words)-most))
	}
	return list, strings.Join(words, "; ")
}
