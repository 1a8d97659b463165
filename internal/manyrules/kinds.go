package manyrules

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A Kind is a kind of condition, such as an exact host or a glob of the path.
type Kind struct {
	Name string
	test func(i int) rules.Test  // the condition of rule i
	set  func(r *Request, i int) // sets values that rule i matches, and no other rule
}

// Kinds are the kinds of conditions that rules have on the attributes of a Request.
var Kinds = []Kind{
	{"host", on(host, "shop-%d.example.com"), func(r *Request, i int) { r.Host = fmt.Sprintf("shop-%d.example.com", i) }},
	{"host=*text", on(host, "*-%d.example.com"), func(r *Request, i int) { r.Host = fmt.Sprintf("eu-%d.example.com", i) }},
	{"path", on(path, "/api/service-%d"), func(r *Request, i int) { r.Path = fmt.Sprintf("/api/service-%d", i) }},
	{"path=text/**", on(path, "/service-%d/**"), func(r *Request, i int) { r.Path = fmt.Sprintf("/service-%d/a/b", i) }},
	{"path=**/*text", on(path, "/**/*-%d.json"), func(r *Request, i int) { r.Path = fmt.Sprintf("/a/b/report-%d.json", i) }},
	{"path=**/text/*", on(path, "/**/service-%d/*"), func(r *Request, i int) { r.Path = fmt.Sprintf("/a/service-%d/b", i) }},
	{"value", on(header("x-tenant"), "tenant-%d"), setHeader("x-tenant", "tenant-%d")},
	{"value=text*", on(header("x-tenant"), "tenant-%d-*"), setHeader("x-tenant", "tenant-%d-eu")},
	{"value=*text", on(header("x-tenant"), "*-tenant-%d"), setHeader("x-tenant", "eu-tenant-%d")},
	{"value=*text*", on(header("user-agent"), "*bot-%d/*"), setHeader("user-agent", "Mozilla/5.0 (compatible; bot-%d/2.1)")},
	{"value=text*text", on(header("x-tenant"), "tenant-*-%d"), setHeader("x-tenant", "tenant-eu-%d")},
	{"name", onName("yes"), func(r *Request, i int) { r.Headers = append(r.Headers, [2]string{fmt.Sprint("x-flag-", i), "yes"}) }},
	{"name=*", onName("*"), func(r *Request, i int) { r.Headers = append(r.Headers, [2]string{fmt.Sprint("x-flag-", i), "no"}) }},
}

func on(a headgate.Attribute, format string) func(int) rules.Test {
	return func(i int) rules.Test { return rules.Test{Attribute: a, Values: []string{fmt.Sprintf(format, i)}} }
}

func onName(value string) func(int) rules.Test {
	return func(i int) rules.Test {
		return rules.Test{Attribute: header(fmt.Sprint("x-flag-", i)), Values: []string{value}}
	}
}

func setHeader(name, format string) func(*Request, int) {
	return func(r *Request, i int) { r.Headers = append(r.Headers, [2]string{name, fmt.Sprintf(format, i)}) }
}

// Rules returns n rules, each with one condition of this kind.
func (k *Kind) Rules(n int) []rules.Rule {
	list := make([]rules.Rule, n)
	for i := range list {
		list[i] = rules.Rule{
			ID:     fmt.Sprint("rule-", i),
			When:   rules.Condition{Tests: []rules.Test{k.test(i)}},
			Key:    []headgate.Attribute{user},
			Limits: []rules.Limit{{Limit: headgate.PerSecond(10)}},
		}
	}
	return list
}

// Requests returns n requests, each of which matches one rule of Rules(ruleCount).
func (k *Kind) Requests(n, ruleCount int) []*Request {
	list := make([]*Request, n)
	for i := range list {
		r := &Request{
			Host: "www.example.com", Path: "/nothing/here", Method: "GET", User: fmt.Sprint("user-", i), IP: "192.0.2.17",
			Headers: [][2]string{
				{"accept", "*/*"},
				{"accept-encoding", "gzip"},
				{"x-forwarded-for", "192.0.2.17"},
				{"x-request-id", fmt.Sprintf("%016x", i)},
			},
		}
		k.set(r, i*7919%ruleCount)
		list[i] = r
	}
	return list
}
