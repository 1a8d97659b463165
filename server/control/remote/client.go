package remote

import (
	"bytes"
	"cmp"
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

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/internal/conns"
)

// Config configures a Client.
type Config struct {
	// URL is the admin listener of the rules service, such as https://rules.example.com:8084 or
	// unix:/run/headgate/admin.sock.
	URL string
	// Token is the API token, such as hg_…. If TokenFrom is set, it is called for each request instead: the token can
	// then be replaced while the program runs.
	Token     string
	TokenFrom func() (string, error)
	// Namespace is the namespace of all calls. Default DefaultNamespace.
	Namespace string
	// TLS configures the verification of the service. Default the system's settings.
	TLS *tls.Config
	// Timeout limits a call. A stream fails after this time without data, but not before three keep-alive intervals of the
	// service have passed. Default DefaultTimeout.
	Timeout time.Duration
	// Note is the comment of every change, for the history and the audit log. It has at most 1000 bytes. Default none.
	Note string
	// UserAgent identifies the caller in the service's log. Default headgate.
	UserAgent string
}

// Defaults of Config.
const (
	DefaultNamespace = "default"
	DefaultTimeout   = 10 * time.Second
)

// The maximum sizes of responses in bytes.
const (
	maxResponse = 64 << 20 // a response that is kept in memory
	maxSnapshot = 2 << 30  // a streamed response, decompressed
	maxProblem  = 1 << 20  // problem details
)

// A Client calls a rules service. Create one with New. It is safe for concurrent use.
type Client struct {
	config        Config
	name          string // URL for messages
	base          string // beginning of the URLs of requests
	transport     *http.Transport
	http          *http.Client
	streamSilence time.Duration // time without data after which a stream fails
}

var errRedirect = errors.New(
	"the rules service sent a redirect: use the final URL, because a token is not sent to another server")

// New returns a client. It does not connect yet.
func New(c Config) (*Client, error) {
	rawURL := c.URL
	network, path := conns.Split(c.URL)
	if network == "unix" && path != "" {
		rawURL = "http://localhost"
	}
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return nil, errors.New(
			"remote: invalid URL: want http://host:port, https://host:port or unix:/path, without the token")
	}
	if c.Timeout < 0 {
		return nil, fmt.Errorf("remote: Timeout %s: want a duration above 0", c.Timeout)
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Namespace = cmp.Or(c.Namespace, DefaultNamespace)
	c.UserAgent = cmp.Or(c.UserAgent, "headgate")
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
		config: c, name: name, base: strings.TrimSuffix(u.String(), "/"), transport: transport,
		streamSilence: max(streamSilence, c.Timeout),
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
		},
	}, nil
}

// Name returns the URL of the service.
func (c *Client) Name() string { return c.name }

// Namespace returns the namespace of all calls.
func (c *Client) Namespace() string { return c.config.Namespace }

// Close closes idle connections. Calls in progress continue.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// An apiCall is an API request.
type apiCall struct {
	method, path string
	query        url.Values
	header       http.Header
	body         io.Reader
	media        string // of the body
}

// send sends a call. If the status is neither 2xx nor 304, it returns an *Error.
func (c *Client) send(ctx context.Context, in apiCall) (*http.Response, error) {
	query := in.query
	if query == nil {
		query = url.Values{}
	}
	if !query.Has("namespace") {
		query.Set("namespace", c.config.Namespace)
	}
	if c.config.Note != "" && in.method != http.MethodGet {
		query.Set("note", c.config.Note)
	}
	request, err := http.NewRequestWithContext(ctx, in.method, c.base+in.path+"?"+query.Encode(), in.body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", in.method, in.path, err)
	}
	for name, values := range in.header {
		request.Header[name] = values
	}
	if in.media != "" {
		request.Header.Set("Content-Type", in.media)
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
	response, err := c.http.Do(request)
	if err != nil {
		var urlErr *url.Error
		if errors.As(err, &urlErr) {
			err = urlErr.Err // omits the URL, which the new error has without its query
		}
		return nil, fmt.Errorf("%s %s%s: %w", in.method, c.name, in.path, err)
	}
	if response.StatusCode/100 != 2 && response.StatusCode != http.StatusNotModified {
		defer discard(response)
		return nil, readProblem(response)
	}
	return response, nil
}

// discard closes a body. It first reads a short rest, because a connection is only reused if the whole body was read.
func discard(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10) // an error does not matter
	_ = response.Body.Close()
}

// do sends a call and decodes the response into out, unless out is nil. It returns the revision in the header ETag.
func (c *Client) do(ctx context.Context, request apiCall, out any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	response, err := c.send(ctx, request)
	if err != nil {
		return 0, err
	}
	defer discard(response)
	revision := parseETag(response.Header.Get("ETag"))
	if out == nil || response.StatusCode == http.StatusNoContent {
		return revision, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if err == nil && len(body) > maxResponse {
		err = fmt.Errorf("response longer than %d bytes", maxResponse)
	}
	if err == nil {
		err = json.Unmarshal(body, out)
	}
	if err != nil {
		return 0, fmt.Errorf("%s %s%s: %w", request.method, c.name, request.path, err)
	}
	return revision, nil
}

// Do makes a call. Unless in is nil, it is sent as JSON. Unless out is nil, the response is decoded into it.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	request := apiCall{method: method, path: path, query: query}
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		request.body, request.media = bytes.NewReader(body), jsonType
	}
	_, err := c.do(ctx, request, out)
	return err
}

const jsonType = "application/json"

func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// parseETag returns the revision of an ETag, 0 if it is invalid.
func parseETag(text string) int64 {
	text = strings.TrimPrefix(text, "W/")
	n, err := strconv.ParseInt(strings.Trim(text, `"`), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// condition returns the header that requires an object to be at a revision before a change.
func condition(revision int64) http.Header {
	switch revision {
	case control.AnyRevision:
		return nil
	case control.Absent:
		return http.Header{"If-None-Match": {"*"}}
	}
	return http.Header{"If-Match": {etag(revision)}}
}
