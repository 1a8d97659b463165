package gateway

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
)

// oneLimitName is the gateway with one limit for every request, like the peers.
const oneLimitName = "headgate-one"

// noRulesName is the same program without a rule.
const noRulesName = "headgate-norules"

// ProxyFronts are the proxies that are compared, with a floor and the upstream without a proxy.
func ProxyFronts() []site.Front {
	return []site.Front{
		{
			Name: "headgate", Title: fmt.Sprintf("**headgate**, %d rules, of which three apply", RuleCount), Role: harness.Ours,
			Open: openHeadgate(RulesThatPass),
		},
		{
			Name: oneLimitName, Title: fmt.Sprintf("**headgate**, %d rules, of which one applies", RuleCount),
			Role: harness.Ours, Open: openHeadgate(rulesOfWhichOneApplies),
		},
		{Name: noRulesName, Title: "headgate, no rules", Role: harness.Ours, Open: openHeadgate(noRules)},
		{
			Name: openGatewayName, Title: "headgate's gateway package alone", Role: harness.Ours,
			Open: openHere(openGatewayName),
		},
		{Name: "reverse-proxy", Title: "httputil.ReverseProxy, tuned", Role: harness.Peer, Open: openHere("reverse-proxy")},
		{Name: "nginx", Title: "nginx, limit_req", Role: harness.Peer, Program: "nginx", Open: openNginx(false)},
		{Name: "haproxy", Title: "HAProxy, stick table", Role: harness.Peer, Program: "haproxy", Open: openHAProxy(false)},
		{Name: "caddy", Title: "Caddy, without limits", Role: harness.Peer, Program: "caddy", Open: openCaddy},
		{Name: "bare", Title: "floor: a bare net/http handler, no upstream", Role: harness.Floor, Open: openHere("bare")},
		{Name: "direct", Title: "no proxy: the load and the upstream alone", Role: harness.Loop, Open: openNobody},
	}
}

// PriceFronts are the servers whose comparison shows the cost of limits.
func PriceFronts() []site.Front {
	return slices.DeleteFunc(ProxyFronts(), func(f site.Front) bool {
		return f.Role != harness.Ours &&
			f.Role != harness.Loop
	})
}

// openNobody opens a front without a proxy: requests go directly to the upstream.
func openNobody(_ context.Context, s *site.Site) (site.RunningServer, error) {
	return site.RunningServer{Address: s.Upstream}, nil
}

// PacedFronts are the servers whose response times are measured. Headgate is first.
func PacedFronts() []site.Front {
	return slices.DeleteFunc(ProxyFronts(), func(f site.Front) bool {
		return f.Name == oneLimitName || f.Name == noRulesName || f.Role != harness.Ours && f.Role != harness.Loop
	})
}

// RefusingFronts are the servers that deny all requests.
func RefusingFronts() []site.Front {
	return []site.Front{
		{
			Name: "headgate", Title: fmt.Sprintf("**headgate**, %d rules", RuleCount), Role: harness.Ours, Refuses: true,
			Open: openHeadgate(rulesThatRefuse),
		},
		{
			Name: "bare-429", Title: "floor: a bare net/http handler that writes 429", Role: harness.Floor, Refuses: true,
			Open: openHere("bare-429"),
		},
		{
			Name: "nginx", Title: "nginx, limit_req", Role: harness.Peer, Program: "nginx", Refuses: true,
			Open: openNginx(true),
		},
		{
			Name: "haproxy", Title: "HAProxy, stick table", Role: harness.Peer, Program: "haproxy", Refuses: true,
			Open: openHAProxy(true),
		},
	}
}
