package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// decisionPath is the path of the decision API.
const decisionPath = "/v1/ratelimit"

// maxResponse is the maximum number of bytes of a response that are read.
const maxResponse = 1 << 20

// newHTTPClient returns a client with a maximum number of connections, which it keeps open.
func newHTTPClient(connections int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections, MaxIdleConns: connections,
			IdleConnTimeout: time.Minute, ResponseHeaderTimeout: time.Minute,
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func openHTTP(u *url.URL, o Options) (Target, error) {
	if u.Path != decisionPath {
		if o.Rule != "" {
			return nil, fmt.Errorf(
				"target %s is a gateway, which applies all rules that match; only %s has a rule", u, decisionPath)
		}
		if o.Token != "" {
			return nil, fmt.Errorf(
				"target %s is a gateway, which accepts no token; only %s does", u, decisionPath)
		}
		return &gatewayTarget{client: newHTTPClient(o.Connections), url: u.String()}, nil
	}
	if o.Rule == "" {
		return nil, fmt.Errorf("target %s needs the rule to apply", u)
	}
	return &decisionTarget{client: newHTTPClient(o.Connections), url: u.String(), rule: o.Rule, token: o.Token}, nil
}

// A gatewayTarget sends GET requests through a gateway. The header X-API-Key names the client.
type gatewayTarget struct {
	client *http.Client
	url    string
}

var _ Target = (*gatewayTarget)(nil)

func (t *gatewayTarget) Take(ctx context.Context, client string) (Outcome, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, nil)
	if err != nil {
		return Outcome{}, err
	}
	request.Header.Set("X-API-Key", client)
	status, header, _, err := exchange(t.client, request)
	switch {
	case err != nil:
		return Outcome{}, err
	case status == http.StatusTooManyRequests:
		seconds, err := strconv.Atoi(header.Get("Retry-After"))
		if err != nil {
			return Outcome{}, fmt.Errorf("GET %s: status 429 with Retry-After %q", t.url, header.Get("Retry-After"))
		}
		return Outcome{RetryAfter: time.Duration(seconds) * time.Second, Coarse: true}, nil
	case status >= 200 && status < 400:
		return Outcome{Allowed: true}, nil
	}
	return Outcome{}, fmt.Errorf("GET %s: got status %d, want 2xx, 3xx or 429", t.url, status)
}

func (t *gatewayTarget) Close() error {
	t.client.CloseIdleConnections()
	return nil
}

// A decisionTarget calls the decision API over HTTP. The client's name is both the user and the API key.
type decisionTarget struct {
	client           *http.Client
	url, rule, token string
}

var _ Target = (*decisionTarget)(nil)

type decisionRequest struct {
	RuleID string `json:"ruleId"`
	Client struct {
		UserID string `json:"userId"`
		APIKey string `json:"apiKey"`
	} `json:"client"`
}

type decisionResponse struct {
	Passed       *bool `json:"passed"`
	RetryAfterMS int64 `json:"retryAfterMs"`
	DelayMS      int64 `json:"delayMs"`
	Degraded     bool  `json:"degraded"`
}

// errNever is returned if a request would be denied at any time.
var errNever = errors.New("the rule never lets a request of cost 1 pass")

func (t *decisionTarget) Take(ctx context.Context, client string) (Outcome, error) {
	body := decisionRequest{RuleID: t.rule}
	body.Client.UserID, body.Client.APIKey = client, client
	text, err := json.Marshal(body)
	if err != nil {
		return Outcome{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(text))
	if err != nil {
		return Outcome{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	if t.token != "" {
		request.Header.Set("Authorization", "Bearer "+t.token)
	}
	status, _, text, err := exchange(t.client, request)
	if err != nil {
		return Outcome{}, err
	}
	var d decisionResponse
	if err := json.Unmarshal(text, &d); err != nil || d.Passed == nil {
		return Outcome{}, fmt.Errorf("POST %s: got status %d, want a decision", t.url, status)
	}
	if d.RetryAfterMS < 0 {
		return Outcome{}, errNever
	}
	return Outcome{
		Allowed: *d.Passed, Degraded: d.Degraded,
		Delay: time.Duration(d.DelayMS) * time.Millisecond, RetryAfter: time.Duration(d.RetryAfterMS) * time.Millisecond,
	}, nil
}

func (t *decisionTarget) Close() error {
	t.client.CloseIdleConnections()
	return nil
}

// exchange sends a request and reads the whole response, because a connection is only reused after that.
func exchange(client *http.Client, request *http.Request) (status int, header http.Header, body []byte, err error) {
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("read the response of %s: %w", request.URL, err)
	}
	return response.StatusCode, response.Header, body, nil
}
