package remote

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
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/internal/conns"
)

// Config says which rules service to call, and as whom.
type Config struct {
	// URL is where its admin listener is, such as https://rules.example.com:8084 or unix:/run/headgate/admin.sock.
	URL string
	// Token is what it is shown: hg_…. TokenFrom, if any, is asked before each call instead, so that a token can be replaced
	// while the program runs.
	Token     string
	TokenFrom func() (string, error)
	// Namespace is whose rules are meant. Default DefaultNamespace.
	Namespace string
	// TLS is how to verify the service. Default as the system does.
	TLS *tls.Config
	// Timeout is how long a call may take, and how long a stream may be silent. Default DefaultTimeout; streams are given at
	// least three of the service's signs of life.
	Timeout time.Duration
	// Note is sent with every change, for the history and the audit: why it is made. At most 1000 bytes. Default none.
	Note string
	// UserAgent is who calls, for the service's log. Default headgate.
	UserAgent string
}

// What holds unless told otherwise.
const (
	DefaultNamespace = "default"
	DefaultTimeout   = 10 * time.Second
)

// Bounds of what is read.
const (
	maxAnswer   = 64 << 20 // of an answer that is kept in memory
	maxSnapshot = 2 << 30  // of one that is not, unpacked
	maxProblem  = 1 << 20
)

// A Client calls a rules service. Make one with New. It is safe for concurrent use.
type Client struct {
	config    Config
	name      string // for people
	base      string // of URLs
	transport *http.Transport
	http      *http.Client
	silence   time.Duration // how long a stream may be silent
}

var errRedirect = errors.New("the rules service sends calls elsewhere: give the URL where it is itself, since a token is not sent on")

// New returns a client. It does not call anybody yet.
func New(c Config) (*Client, error) {
	at := c.URL
	network, path := conns.Split(c.URL)
	if network == "unix" && path != "" {
		at = "http://localhost"
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("remote: no URL of a rules service: want http://host:port, https://host:port or unix:/path, and the token elsewhere")
	}
	if c.Timeout < 0 {
		return nil, fmt.Errorf("remote: Timeout %s: want a time above 0", c.Timeout)
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	if c.UserAgent == "" {
		c.UserAgent = "headgate"
	}
	dialer := &net.Dialer{Timeout: c.Timeout, KeepAlive: 15 * time.Second}
	dial, name := dialer.DialContext, strings.TrimSuffix(u.String(), "/")
	if network == "unix" {
		name = c.URL
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, path)
		}
	}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial,
		TLSClientConfig:     c.TLS,
		TLSHandshakeTimeout: c.Timeout,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     90 * time.Second,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: c.Timeout},
	}
	return &Client{
		config: c, name: name, base: strings.TrimSuffix(u.String(), "/"), transport: transport, silence: max(silence, c.Timeout),
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
		},
	}, nil
}

// Name says which service it is, for people.
func (c *Client) Name() string { return c.name }

// Namespace returns whose rules are meant.
func (c *Client) Namespace() string { return c.config.Namespace }

// Close closes connections that are idle. Calls that are under way go on.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// A call is what is asked.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	body         io.Reader
	media        string // of the body
}

// send sends a call. An answer that is none of 2xx and 304 is an *Error.
func (c *Client) send(ctx context.Context, what call) (*http.Response, error) {
	query := what.query
	if query == nil {
		query = url.Values{}
	}
	if !query.Has("namespace") {
		query.Set("namespace", c.config.Namespace)
	}
	if c.config.Note != "" && what.method != http.MethodGet {
		query.Set("note", c.config.Note)
	}
	request, err := http.NewRequestWithContext(ctx, what.method, c.base+what.path+"?"+query.Encode(), what.body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", what.method, what.path, err)
	}
	for name, values := range what.header {
		request.Header[name] = values
	}
	if what.media != "" {
		request.Header.Set("Content-Type", what.media)
	}
	request.Header.Set("User-Agent", c.config.UserAgent)
	token := c.config.Token
	if c.config.TokenFrom != nil {
		if token, err = c.config.TokenFrom(); err != nil {
			return nil, err
		}
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // which has the whole query in it
		}
		return nil, fmt.Errorf("%s %s%s: %w", what.method, c.name, what.path, err)
	}
	if answer.StatusCode/100 != 2 && answer.StatusCode != http.StatusNotModified {
		defer discard(answer)
		return nil, readProblem(answer)
	}
	return answer, nil
}

// discard lets the connection be used again, if little is left to read.
func discard(answer *http.Response) {
	_, _ = io.CopyN(io.Discard, answer.Body, 4<<10) // what is left does not matter
	_ = answer.Body.Close()
}

// do sends a call and reads its answer into out, unless that is nil. It returns the revision of the ETag.
func (c *Client) do(ctx context.Context, what call, out any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	answer, err := c.send(ctx, what)
	if err != nil {
		return 0, err
	}
	defer discard(answer)
	revision := parseETag(answer.Header.Get("ETag"))
	if out == nil || answer.StatusCode == http.StatusNoContent {
		return revision, nil
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	if err == nil {
		err = json.Unmarshal(body, out)
	}
	if err != nil {
		return 0, fmt.Errorf("%s %s%s: %w", what.method, c.name, what.path, err)
	}
	return revision, nil
}

// Do makes a call that has no function of its own: in, unless nil, is sent as JSON, and the answer is read into out, unless
// that is nil.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	what := call{method: method, path: path, query: query}
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		what.body, what.media = bytes.NewReader(body), jsonType
	}
	_, err := c.do(ctx, what, out)
	return err
}

const (
	jsonType  = "application/json"
	patchType = "application/merge-patch+json"
)

func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// parseETag returns the revision of an ETag, 0 if it is none.
func parseETag(text string) int64 {
	text = strings.TrimPrefix(text, "W/")
	n, err := strconv.ParseInt(strings.Trim(text, `"`), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// based is the header by which a change asks for what it is based on.
func based(revision int64) http.Header {
	switch revision {
	case control.Any:
		return nil
	case control.Absent:
		return http.Header{"If-None-Match": {"*"}}
	}
	return http.Header{"If-Match": {etag(revision)}}
}
