package gateway

import (
	"slices"
	"strings"
)

// routeTable finds the route of a request.
type routeTable struct {
	all       []*route
	hosts     map[string][]*route // by host, the longest path first
	wildcards map[string][]*route // by the part of the host after *.
	anyHost   []*route            // routes without a host
}

func newRouteTable(all []*route) routeTable {
	t := routeTable{all: all, hosts: make(map[string][]*route), wildcards: make(map[string][]*route)}
	for _, r := range all {
		switch parent, wild := strings.CutPrefix(r.config.Host, "*."); {
		case r.config.Host == "":
			t.anyHost = append(t.anyHost, r)
		case wild:
			t.wildcards[parent] = append(t.wildcards[parent], r)
		default:
			t.hosts[r.config.Host] = append(t.hosts[r.config.Host], r)
		}
	}
	longestFirst := func(a, b *route) int { return len(b.config.Path) - len(a.config.Path) }
	slices.SortStableFunc(t.anyHost, longestFirst)
	for _, byHost := range []map[string][]*route{t.hosts, t.wildcards} {
		for _, list := range byHost {
			slices.SortStableFunc(list, longestFirst)
		}
	}
	return t
}

// find returns the route for a canonical host and path, or nil.
func (t *routeTable) find(host, path string) *route {
	if len(t.hosts) > 0 {
		if r := longestMatch(t.hosts[host], path); r != nil {
			return r
		}
	}
	if len(t.wildcards) > 0 {
		for parent := host; ; {
			_, after, ok := strings.Cut(parent, ".")
			if !ok {
				break
			}
			parent = after
			if r := longestMatch(t.wildcards[parent], path); r != nil {
				return r
			}
		}
	}
	return longestMatch(t.anyHost, path)
}

// longestMatch returns the route with the longest path that matches. The list is sorted by length, longest first.
func longestMatch(list []*route, path string) *route {
	for _, r := range list {
		if hasPathPrefix(path, r.config.Path) {
			return r
		}
	}
	return nil
}

// hasPathPrefix reports whether the path equals the prefix or continues it with a new segment.
func hasPathPrefix(path, prefix string) bool {
	if !strings.HasPrefix(path, prefix) {
		return false
	}
	return len(path) == len(prefix) || prefix[len(prefix)-1] == '/' || path[len(prefix)] == '/'
}
