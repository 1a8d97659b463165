// Package manyrules generates many rules of all kinds, and requests that match them, for tests and benchmarks.
package manyrules

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

var (
	host = headgate.Attribute{Kind: headgate.AttrHost}
	path = headgate.Attribute{Kind: headgate.AttrPath}
	user = headgate.Attribute{Kind: headgate.AttrUser}
)

func header(name string) headgate.Attribute {
	return headgate.Attribute{Kind: headgate.AttrHeader, Name: name}
}

// Mixed returns n rules: a third by a glob of the path, a third by host and path, a third by one header or attribute.
func Mixed(n int) []rules.Rule {
	list := make([]rules.Rule, n)
	for i := range list {
		r := &list[i]
		r.ID = fmt.Sprint("rule-", i)
		r.Key = []headgate.Attribute{user}
		r.Limits = []rules.Limit{{Limit: headgate.PerSecond(10)}}
		addTest := func(a headgate.Attribute, value string) {
			r.When.Tests = append(r.When.Tests, rules.Test{Attribute: a, Values: []string{value}})
		}
		switch k := i / 3; i % 3 {
		case 0:
			switch k % 4 {
			case 0:
				addTest(path, fmt.Sprintf("/api/v1/service-%d/**", k))
			case 1:
				addTest(path, fmt.Sprintf("/api/*/service-%d/*", k))
			case 2:
				addTest(path, fmt.Sprintf("/files/%d/*.json", k))
			default:
				addTest(path, fmt.Sprintf("/**/export-%d", k))
			}
		case 1:
			if k%5 == 0 {
				addTest(host, fmt.Sprintf("*.tenant-%d.example.com", k%100))
			} else {
				addTest(host, fmt.Sprintf("host-%d.example.com", k%100))
			}
			addTest(path, fmt.Sprintf("/shop/items-%d/**", k))
		default:
			switch k % 4 {
			case 0:
				addTest(header("x-tenant"), fmt.Sprint("tenant-", k))
			case 1:
				addTest(header("x-plan"), fmt.Sprint("plan-", k))
			case 2:
				addTest(user, fmt.Sprint("user-", k))
			default:
				addTest(headgate.Attribute{Kind: headgate.AttrAPIKey}, fmt.Sprint("key-", k))
			}
		}
	}
	return list
}

// A Request is a Subject that is similar to the requests of a gateway: a few fields and a list of headers.
type Request struct {
	Host, Path, Method, User, APIKey, IP string
	Headers                              [][2]string
}

// Get returns an attribute.
func (r *Request) Get(a headgate.Attribute) (string, bool) {
	var value string
	switch a.Kind {
	case headgate.AttrHost:
		value = r.Host
	case headgate.AttrPath:
		value = r.Path
	case headgate.AttrMethod:
		value = r.Method
	case headgate.AttrUser:
		value = r.User
	case headgate.AttrAPIKey:
		value = r.APIKey
	case headgate.AttrIP:
		value = r.IP
	case headgate.AttrHeader:
		for i := range r.Headers {
			if r.Headers[i][0] == a.Name {
				return r.Headers[i][1], true
			}
		}
	}
	return value, value != ""
}

// AppendNames appends the names of the headers.
func (r *Request) AppendNames(dst []string, kind headgate.AttributeKind) ([]string, bool) {
	if kind != headgate.AttrHeader {
		return dst, false
	}
	for i := range r.Headers {
		dst = append(dst, r.Headers[i][0])
	}
	return dst, true
}

// pick returns the index of the rule that request i matches, among the rules of one kind in Mixed. Each kind has four
// variants, so its rules are in groups of four. With fewer than twelve rules there is no whole group, and requests
// match fewer rules than documented.
func pick(i, ruleCount int) int { return i * 7919 % max(1, ruleCount/12*4) }

// Typical returns n requests, each of which matches one of the mixed rules, a third by each kind, and has other values
// for all other attributes.
func Typical(n, ruleCount int) []*Request {
	list := MatchingFive(n, ruleCount)
	for i, r := range list {
		full := *r
		r.User, r.APIKey = fmt.Sprint("someone-", i), fmt.Sprint("other-", i)
		r.Headers = [][2]string{full.Headers[0], full.Headers[1], full.Headers[2], {"x-tenant", "nobody"}, {"x-plan", "free"}}
		switch i % 3 {
		case 0: // by a glob of the path: i%5 says which
			if k := pick(i, ruleCount); i%5 == 4 {
				r.Path = fmt.Sprintf("/a/b/export-%d", k-k%4+3)
			}
		case 1: // by host and path
			k := pick(i, ruleCount)
			r.Path = fmt.Sprintf("/shop/items-%d/reviews/7", k)
		default: // by one attribute
			r.Path = fmt.Sprintf("/nothing/here/%d", i)
			switch i / 3 % 4 {
			case 0:
				r.User = full.User
			case 1:
				r.APIKey = full.APIKey
			case 2:
				r.Headers[3] = full.Headers[3]
			default:
				r.Headers[4] = full.Headers[4]
			}
		}
	}
	return list
}

// MatchingFive returns n requests, each of which matches four of the mixed rules by its attributes and one by its path.
func MatchingFive(n, ruleCount int) []*Request {
	list := make([]*Request, n)
	for i := range list {
		k := pick(i, ruleCount)
		r := &Request{
			Method: "GET", User: fmt.Sprint("user-", k-k%4+2), APIKey: fmt.Sprint("key-", k-k%4+3), IP: "192.0.2.17",
			Headers: [][2]string{
				{"accept", "*/*"},
				{"user-agent", "curl/8.5.0"},
				{"x-request-id", "0123456789abcdef"},
				{"x-tenant", fmt.Sprint("tenant-", k-k%4)},
				{"x-plan", fmt.Sprint("plan-", k-k%4+1)},
			},
		}
		r.Host = fmt.Sprintf("host-%d.example.com", k%100)
		if k%5 == 0 {
			r.Host = fmt.Sprintf("www.tenant-%d.example.com", k%100)
		}
		switch i % 5 {
		case 0:
			r.Path = fmt.Sprintf("/api/v1/service-%d/users/42", k-k%4)
		case 1:
			r.Path = fmt.Sprintf("/api/v2/service-%d/42", k-k%4+1)
		case 2:
			r.Path = fmt.Sprintf("/files/%d/report.json", k-k%4+2)
		case 3:
			r.Path = fmt.Sprintf("/a/b/export-%d", k-k%4+3)
		default:
			r.Path = fmt.Sprintf("/shop/items-%d/reviews/7", k)
		}
		list[i] = r
	}
	return list
}
