package rules

import (
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/internal/yield"
)

// Validate reports all problems of rules and of registered clients. The error is an *Error.
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
	validIDs := validateClients(clients, at, &p)
	requirements := NewRequirements(rules)
	for i := range clients {
		if validIDs[clients[i].ID] {
			requirements.check(clients[i].WithDefaults(), at.element(i), &p)
		}
	}
	return p.err()
}

// ValidateClients reports all problems of clients that do not depend on rules. The error is an *Error.
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
	indexes := make(map[string]int, len(rules)) // by id
	var yielder yield.Yielder
	for i := range rules {
		yielder.Step()
		here := at.element(i)
		rules[i].validate(here, p)
		if first, isDuplicate := indexes[rules[i].ID]; isDuplicate && rules[i].ID != "" {
			p.addDuplicate(here.field("id"), at.element(first), Quote(rules[i].ID), "an id that no other rule has")
		} else {
			indexes[rules[i].ID] = i
		}
	}
}

// validateClients adds the problems of clients to p, and returns the ids of the valid clients. Of clients with the same
// id or the same attribute value, only the first is valid.
func validateClients(clients []Client, at *location, p *problems) (validIDs map[string]bool) {
	type identity struct {
		attribute headgate.Attribute
		value     string
	}
	validIDs = make(map[string]bool, len(clients))
	owners := make(map[identity]string, len(clients)) // ids of clients
	for i := range clients {
		c := &clients[i]
		here := at.element(i)
		before := p.count()
		c.validate(here, p)
		if validIDs[c.ID] {
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
		validIDs[c.ID] = true
		for _, t := range attributes {
			for _, value := range t.Values {
				owners[identity{t.Attribute, value}] = c.ID
			}
		}
	}
	return validIDs
}

// WantFreeValue returns the Problem.Want for an attribute value that already identifies another client, the owner.
func WantFreeValue(owner string) string {
	return "a value that no other client has: it identifies " + Quote(owner)
}
