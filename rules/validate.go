package rules

import (
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/internal/yield"
)

// Validate reports all problems of rules and of clients that are registered under them. The error is an *Error.
func Validate(rules []Rule, clients ...Client) error {
	var p problems
	validateRules(rules, &p)
	at := &location{name: "clients"}
	if len(clients) > MaxClients {
		p.add(at, strconv.Itoa(len(clients)), "at most "+strconv.Itoa(MaxClients)+"; a Registry takes more")
	}
	if len(rules) > MaxRules || len(clients) == 0 || len(clients) > MaxClients {
		return p.err()
	}
	valid := validateClients(clients, at, &p)
	required := NewRequirements(rules)
	for i := range clients {
		if valid[clients[i].ID] {
			required.check(clients[i].WithDefaults(), at.element(i), &p)
		}
	}
	return p.err()
}

// ValidateClients reports all problems of clients, and does not look at rules. The error is an *Error.
func ValidateClients(clients []Client) error {
	var p problems
	validateClients(clients, &location{name: "clients"}, &p)
	return p.err()
}

func validateRules(rules []Rule, p *problems) {
	at := &location{name: "rules"}
	if len(rules) > MaxRules {
		p.add(at, strconv.Itoa(len(rules)), "at most "+strconv.Itoa(MaxRules))
		return
	}
	seen := make(map[string]int, len(rules))
	var work yield.Yielder
	for i := range rules {
		work.Step()
		here := at.element(i)
		rules[i].validate(here, p)
		if first, twice := seen[rules[i].ID]; twice && rules[i].ID != "" {
			p.addDuplicate(here.field("id"), at.element(first), Quote(rules[i].ID), "an id that no other rule has")
		} else {
			seen[rules[i].ID] = i
		}
	}
}

// validateClients adds the problems of clients to p, and returns the ids of the valid clients.
func validateClients(clients []Client, at *location, p *problems) map[string]bool {
	type identity struct {
		attribute headgate.Attribute
		value     string
	}
	ids := make(map[string]bool, len(clients))
	owners := make(map[identity]string, len(clients))
	for i := range clients {
		c := &clients[i]
		here := at.element(i)
		before := p.count()
		c.validate(here, p)
		if ids[c.ID] {
			p.add(here.field("id"), Quote(c.ID), "an id that no other client has")
		}
		if p.count() > before {
			continue
		}
		attributes := c.WithDefaults().Attributes
	values:
		for _, t := range attributes {
			for _, value := range t.Values {
				if owner, exists := owners[identity{t.Attribute, value}]; exists {
					p.add(here.field("attributes").field(t.Attribute.String()), Quote(value), WantFreeValue(owner))
					break values
				}
			}
		}
		if p.count() > before {
			continue
		}
		ids[c.ID] = true
		for _, t := range attributes {
			for _, value := range t.Values {
				owners[identity{t.Attribute, value}] = c.ID
			}
		}
	}
	return ids
}

// WantFreeValue describes a valid value of a client's attribute where the given one identifies another client.
func WantFreeValue(owner string) string {
	return "a value of one client only: it names " + Quote(owner) + " already"
}
