package traffic

import (
	"cmp"
	"slices"
)

// clientSums add up the requests of clients under rules.
type clientSums map[clientRule]*ClientCount

type clientRule struct {
	client RawClient
	rule   string
}

func (s clientSums) add(c *ClientCount) {
	key := clientRule{c.Client, c.Rule}
	sum := s[key]
	if sum == nil {
		sum = &ClientCount{Client: c.Client, Rule: c.Rule}
		s[key] = sum
	}
	// If a rule was a shadow rule only for some time, a client can have denials of both kinds. Then they do not count as
	// denials of a shadow rule.
	switch {
	case sum.Denied == 0:
		sum.Shadow = c.Shadow
	case c.Denied > 0:
		sum.Shadow = sum.Shadow && c.Shadow
	}
	sum.Requests += c.Requests
	sum.Denied += c.Denied
	sum.Error += c.Error
}

// denialRank returns 0 if requests of the client were denied, else 1. It is for sorting.
func (c *ClientCount) denialRank() int {
	if c.Denied > 0 && !c.Shadow {
		return 0
	}
	return 1
}

// part scales the counts of the given number of seconds to those of covered seconds.
func (c *ClientCount) part(covered, seconds int64) ClientCount {
	result := *c
	for _, n := range []*uint64{&result.Requests, &result.Denied, &result.Error} {
		*n = (*n*uint64(covered) + uint64(seconds)/2) / uint64(seconds) // rounded
	}
	return result
}

// list returns all clients.
func (s clientSums) list() []ClientCount {
	list := make([]ClientCount, 0, len(s))
	for _, c := range s {
		c.Allowed = c.Requests - min(c.Requests, c.Denied)
		if c.Shadow {
			c.Allowed = c.Requests
		}
		list = append(list, *c)
	}
	return list
}

// sorted returns all clients in descending order of their denials if byDenied is true, otherwise of their requests.
func (s clientSums) sorted(byDenied bool) []ClientCount {
	list := s.list()
	slices.SortFunc(list, func(a, b ClientCount) int {
		denied, requests := cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Requests, a.Requests)
		if !byDenied {
			denied, requests = requests, denied
		}
		return cmp.Or(denied, requests, cmp.Compare(a.Client, b.Client), cmp.Compare(a.Rule, b.Rule))
	})
	return list
}

// trim keeps the clients with the most requests and those with the most denials, at most n each.
func (s clientSums) trim(n int) {
	if len(s) <= n {
		return
	}
	kept := make(map[clientRule]bool, 2*n)
	for _, byDenied := range []bool{false, true} {
		list := s.sorted(byDenied)
		for i := range list[:n] {
			if !byDenied || list[i].Denied > 0 {
				kept[clientRule{list[i].Client, list[i].Rule}] = true
			}
		}
	}
	for key := range s {
		if !kept[key] {
			delete(s, key)
		}
	}
}
