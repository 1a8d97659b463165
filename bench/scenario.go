package main

import (
	"fmt"
	"regexp"

	"github.com/headgate/headgate/bench/harness"
)

// A selectedPart is a part with its selected scenarios.
type selectedPart struct {
	harness.Part
	list []harness.Scenario
}

// selectParts returns the scenarios that match a pattern, from the part with the given name or from all parts.
func selectParts(only *regexp.Regexp, in string) ([]selectedPart, error) {
	var found []selectedPart
	var names, partNames []string
	for _, p := range parts() {
		partNames = append(partNames, p.Name)
		if in != "" && in != p.Name {
			continue
		}
		c := selectedPart{Part: p}
		for _, s := range p.Scenarios {
			names = append(names, s.Name)
			if only == nil || only.MatchString(s.Name) {
				c.list = append(c.list, s)
			}
		}
		if len(c.list) > 0 {
			found = append(found, c)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("-part %q: want one of %v", in, partNames)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("-only %q matches none of %v", only, names)
	}
	return found, nil
}
