package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// A front is a server that answers requests, from its upstream or by itself.
type front struct {
	// name is short and unique, title is for tables.
	name, title string
	role        role
	// program is whose version is printed; empty for what is written here.
	program string
	// refuses is set if it refuses all requests.
	refuses bool
	// open starts it.
	open func(ctx context.Context, s *site) (place, error)
}

// An openFront is one that serves.
type openFront struct {
	front
	place
}

// oneLimitName is the gateway with one limit for every request, as the peers have.
const oneLimitName = "headgate-one"

// noRulesName is the same program without a rule.
const noRulesName = "headgate-norules"

// proxyFronts are those that bring everybody the upstream's answer, and what they are measured by.
func proxyFronts() []front {
	return []front{
		{name: "headgate", title: fmt.Sprintf("**headgate**, %d rules, of which three apply", ruleCount), role: ours, open: openHeadgate(rulesThatPass)},
		{name: oneLimitName, title: fmt.Sprintf("**headgate**, %d rules, of which one applies", ruleCount), role: ours, open: openHeadgate(rulesOfWhichOneApplies)},
		{name: noRulesName, title: "headgate, no rules", role: ours, open: openHeadgate(noRules)},
		{name: openGatewayName, title: "headgate's gateway package alone", role: ours, open: openHere(openGatewayName)},
		{name: "reverse-proxy", title: "httputil.ReverseProxy, tuned", role: peer, open: openHere("reverse-proxy")},
		{name: "nginx", title: "nginx, limit_req", role: peer, program: "nginx", open: openNginx(false)},
		{name: "haproxy", title: "HAProxy, stick table", role: peer, program: "haproxy", open: openHAProxy(false)},
		{name: "caddy", title: "Caddy, without limits", role: peer, program: "caddy", open: openCaddy},
		{name: "bare", title: "floor: a bare net/http handler, no upstream", role: floor, open: openHere("bare")},
		{name: "direct", title: "no proxy: the load and the upstream alone", role: loop, open: openNobody},
	}
}

// priceFronts are those that tell what limits cost.
func priceFronts() []front {
	return slices.DeleteFunc(proxyFronts(), func(f front) bool { return f.role != ours && f.role != loop })
}

// openNobody lets the upstream be asked directly.
func openNobody(_ context.Context, s *site) (place, error) { return place{address: s.upstream}, nil }

// pacedFronts are those whose answers are timed, ours first.
func pacedFronts() []front {
	return slices.DeleteFunc(proxyFronts(), func(f front) bool {
		return f.name == oneLimitName || f.name == noRulesName || f.role != ours && f.role != loop
	})
}

// refusingFronts are those that refuse everybody.
func refusingFronts() []front {
	return []front{
		{name: "headgate", title: fmt.Sprintf("**headgate**, %d rules", ruleCount), role: ours, refuses: true, open: openHeadgate(rulesThatRefuse)},
		{name: "bare-429", title: "floor: a bare net/http handler that writes 429", role: floor, refuses: true, open: openHere("bare-429")},
		{name: "nginx", title: "nginx, limit_req", role: peer, program: "nginx", refuses: true, open: openNginx(true)},
		{name: "haproxy", title: "HAProxy, stick table", role: peer, program: "haproxy", refuses: true, open: openHAProxy(true)},
	}
}

// openAll opens fronts and sees that each answers as it should.
func (s *site) openAll(ctx context.Context, list []front, tell func(name string)) ([]*openFront, error) {
	var opened []*openFront
	for _, f := range list {
		tell(f.name)
		at, err := f.open(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", f.name, err)
		}
		o := &openFront{front: f, place: at}
		if err := o.proven(ctx); err != nil {
			return nil, fmt.Errorf("try %s: %w", f.name, err)
		}
		opened = append(opened, o)
	}
	return opened, nil
}

// fits returns an error if what wrk saw of a front is not what it is to do. A limit that lets one pass every minute still
// refuses everybody.
func (f *openFront) fits(run wrkRun) error {
	if err := run.broken(); err != nil {
		return err
	}
	passed := run.Requests - run.Refused
	switch {
	case f.refuses && passed > max(1, run.Requests/1000):
		return fmt.Errorf("%d of %d requests passed, want none", passed, run.Requests)
	case !f.refuses && run.Refused > 0:
		return fmt.Errorf("%d of %d requests were answered with an error, want none", run.Refused, run.Requests)
	}
	return nil
}

// proven returns an error if a front does not answer as it should, soon. One that is to refuse everybody may need a request or
// two until it does.
func (f *openFront) proven(ctx context.Context) error {
	want := http.StatusOK
	if f.refuses {
		want = http.StatusTooManyRequests
	}
	ctx, cancel := context.WithTimeout(ctx, startupTime)
	defer cancel()
	for {
		err := askOnce(ctx, f.address, want)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}
