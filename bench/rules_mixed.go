package main

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

var (
	byAddress = headgate.Attribute{Kind: headgate.AttrIP}
	byHost    = headgate.Attribute{Kind: headgate.AttrHost}
	byPath    = headgate.Attribute{Kind: headgate.AttrPath}
	byAPIKey  = headgate.Attribute{Kind: headgate.AttrAPIKey}
	byTenant  = headgate.Attribute{Kind: headgate.AttrHeader, Name: "x-tenant"}
	byPlan    = headgate.Attribute{Kind: headgate.AttrHeader, Name: "x-plan"}
)

// mixedRules returns n rules: a third by a glob of the path, a third by host and path, a third by one header or attribute.
func mixedRules(n int) []rules.Rule {
	list := make([]rules.Rule, n)
	for i := range list {
		r := &list[i]
		r.ID, r.Key, r.Limits = fmt.Sprint("rule-", i), []headgate.Attribute{byUser}, []rules.Limit{{Limit: headgate.PerSecond(10)}}
		is := func(a headgate.Attribute, format string, values ...any) {
			r.When.Tests = append(r.When.Tests, rules.Test{Attribute: a, Values: []string{fmt.Sprintf(format, values...)}})
		}
		switch kind := i / 3 % 4; i % 3 {
		case 0:
			is(byPath, [...]string{"/api/v1/service-%d/**", "/api/*/service-%d/*", "/files/%d/*.json", "/**/export-%d"}[kind], i)
		case 1:
			is(byHost, [...]string{"host-%d.example.com", "host-%d.example.com", "host-%d.example.com", "*.tenant-%d.example.com"}[kind], i%100)
			is(byPath, "/shop/items-%d/**", i)
		default:
			is([...]headgate.Attribute{byTenant, byPlan, byUser, byAPIKey}[kind], "value-%d", i)
		}
	}
	return list
}

// A mixedRequest is much like what a gateway knows of a request: a few fields and a list of headers.
type mixedRequest struct {
	host, path, user, apiKey, address string
	headers                           [5][2]string
}

func (r *mixedRequest) Get(a headgate.Attribute) (string, bool) {
	var value string
	switch a.Kind {
	case headgate.AttrHost:
		value = r.host
	case headgate.AttrPath:
		value = r.path
	case headgate.AttrUser:
		value = r.user
	case headgate.AttrAPIKey:
		value = r.apiKey
	case headgate.AttrIP:
		value = r.address
	case headgate.AttrHeader:
		for i := range r.headers {
			if r.headers[i][0] == a.Name {
				return r.headers[i][1], true
			}
		}
	}
	return value, value != ""
}

// mixedRequests returns requests each of which comes under one of so many mixed rules, whichever it is by chance, and has other
// values for all else that rules look at.
func mixedRequests(n, ruleCount int) []*mixedRequest {
	picks := newSequence(uniform, ruleCount, n)
	list := make([]*mixedRequest, n)
	for at := range list {
		i := int(picks[at])
		r := &mixedRequest{
			host: fmt.Sprintf("host-%d.example.com", at%100), path: fmt.Sprintf("/nothing/here/%d", at),
			user: fmt.Sprint("someone-", at), apiKey: fmt.Sprint("other-", at), address: "192.0.2.17",
			headers: [5][2]string{
				{"accept", "*/*"}, {"user-agent", "curl/8.5.0"}, {"x-request-id", "0123456789abcdef"}, {"x-tenant", "nobody"}, {"x-plan", "free"},
			},
		}
		value := fmt.Sprint("value-", i)
		switch kind := i / 3 % 4; i % 3 {
		case 0:
			r.path = fmt.Sprintf([...]string{"/api/v1/service-%d/users/42", "/api/v2/service-%d/42", "/files/%d/report.json", "/a/b/export-%d"}[kind], i)
		case 1:
			r.host = fmt.Sprintf([...]string{"host-%d.example.com", "host-%d.example.com", "host-%d.example.com", "www.tenant-%d.example.com"}[kind], i%100)
			r.path = fmt.Sprintf("/shop/items-%d/reviews/7", i)
		default:
			switch kind {
			case 0:
				r.headers[3][1] = value
			case 1:
				r.headers[4][1] = value
			case 2:
				r.user = value
			default:
				r.apiKey = value
			}
		}
		list[at] = r
	}
	return list
}
