package match

import (
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/internal/pattern"
)

// A compiledCondition is true of a request if all tests hold, at least one condition of each group in any is true, and
// no condition in not is true.
type compiledCondition struct {
	tests []compiledTest
	any   [][]compiledCondition
	not   []compiledCondition
}

// A compiledTest is a rules.Test in a form that is fast to evaluate.
type compiledTest struct {
	attr   int // the number of the attribute: see compiler
	kind   testKind
	value  string    // for testEquals, testEqualsOrMissing and testSubtree
	values *valueSet // for testNetwork and testValues
}

type testKind uint8

const (
	testEquals          testKind = iota // the request's value equals value
	testEqualsOrMissing                 // the request's value equals value, or is missing
	testPresent                         // the request has a value
	testSubtree                         // the request's path equals value or is below it
	testNetwork                         // the client's address is in one of the networks
	testValues                          // the request's value matches one of values
)

// A valueSet holds the values of a test with several values or with patterns.
type valueSet struct {
	exactSet  map[string]struct{} // values without stars, if there are more than maxExactList
	exactList []string            // values without stars, if there are at most maxExactList
	wildcards []string            // patterns with stars
	paths     []pathGlob
	nets      *netTree
}

// maxExactList is the largest number of values for which comparing them one by one is faster than a map.
const maxExactList = 8

// empty reports whether the condition has no parts, and is therefore always true.
func (c *compiledCondition) empty() bool {
	return len(c.tests) == 0 && len(c.any) == 0 && len(c.not) == 0
}

func (c *compiledCondition) holds(p *probe) bool {
	for i := range c.tests {
		if !c.tests[i].holds(p) {
			return false
		}
	}
	for _, group := range c.any {
		if !anyHolds(group, p) {
			return false
		}
	}
	return len(c.not) == 0 || !anyHolds(c.not, p)
}

func anyHolds(conds []compiledCondition, p *probe) bool {
	for i := range conds {
		if conds[i].holds(p) {
			return true
		}
	}
	return false
}

func (t *compiledTest) holds(p *probe) bool {
	if t.kind == testNetwork {
		net := p.address()
		return net.IsValid() && t.values.nets.contains(net)
	}
	value, ok := p.get(t.attr)
	switch t.kind {
	case testEquals:
		return ok && value == t.value
	case testEqualsOrMissing:
		return !ok || value == t.value
	case testPresent:
		return ok
	case testSubtree:
		return ok && inSubtree(t.value, value)
	default:
		return ok && t.values.match(value)
	}
}

func (v *valueSet) match(value string) bool {
	if slices.Contains(v.exactList, value) {
		return true
	}
	if _, ok := v.exactSet[value]; ok {
		return true
	}
	for _, wildcard := range v.wildcards {
		if matchWildcard(wildcard, value) {
			return true
		}
	}
	for i := range v.paths {
		if v.paths[i].match(value) {
			return true
		}
	}
	return false
}

// A compiler compiles conditions. It gives a number to each attribute that they use: the attribute's index in
// attributes.
type compiler struct {
	numbers    map[headgate.Attribute]int
	attributes []headgate.Attribute
}

// number returns the number of an attribute. A new attribute gets the next number.
func (comp *compiler) number(a headgate.Attribute) int {
	if n, ok := comp.numbers[a]; ok {
		return n
	}
	n := len(comp.attributes)
	comp.numbers[a] = n
	comp.attributes = append(comp.attributes, a)
	return n
}

// compileCondition compiles a validated condition. It omits the implied tests, which hold for every request for which
// the condition is evaluated.
func (comp *compiler) compileCondition(c *rules.Condition, implied []*rules.Test) compiledCondition {
	var compiled compiledCondition
	comp.addCondition(&compiled, c, implied)
	return compiled
}

// addCondition adds the parts of a condition to compiled. It adds the parts of conditions in All, and of a single
// condition in Any, directly.
func (comp *compiler) addCondition(compiled *compiledCondition, c *rules.Condition, implied []*rules.Test) {
	for i := range c.Tests {
		if !slices.Contains(implied, &c.Tests[i]) {
			compiled.tests = append(compiled.tests, comp.compileTest(&c.Tests[i]))
		}
	}
	for i := range c.All {
		comp.addCondition(compiled, &c.All[i], implied)
	}
	if len(c.Any) == 1 {
		comp.addCondition(compiled, &c.Any[0], implied)
	} else if len(c.Any) > 1 {
		group := make([]compiledCondition, len(c.Any))
		for i := range c.Any {
			group[i] = comp.compileCondition(&c.Any[i], nil)
		}
		compiled.any = append(compiled.any, group)
	}
	for i := range c.Not {
		compiled.not = append(compiled.not, comp.compileCondition(&c.Not[i], nil))
	}
}

func (comp *compiler) compileTest(t *rules.Test) compiledTest {
	compiled := compiledTest{attr: comp.number(t.Attribute), kind: testValues, values: &valueSet{}}
	for _, value := range t.Values {
		p, _ := pattern.Parse(t.Attribute.Kind, value)
		switch {
		case p.Text == pattern.AnyText:
			return compiledTest{attr: compiled.attr, kind: testPresent}
		case p.Net.IsValid():
			compiled.kind = testNetwork
			if compiled.values.nets == nil {
				compiled.values.nets = newNetTree()
			}
			compiled.values.nets.add(p.Net, 0)
		case p.Exact():
			compiled.values.exactList = append(compiled.values.exactList, p.Text)
		case t.Attribute.Kind == headgate.AttrPath:
			compiled.values.paths = append(compiled.values.paths, newPathGlob(p.Text))
		default:
			compiled.values.wildcards = append(compiled.values.wildcards, p.Text)
		}
	}
	return compiled.simplified()
}

// simplified returns the same test in its fastest form.
func (t compiledTest) simplified() compiledTest {
	v := t.values
	if t.kind == testValues && len(v.exactList)+len(v.wildcards)+len(v.paths) == 1 {
		switch {
		case len(v.exactList) == 1:
			return compiledTest{attr: t.attr, kind: testEquals, value: v.exactList[0]}
		case len(v.paths) == 1 && v.paths[0].segments == nil:
			return compiledTest{attr: t.attr, kind: testSubtree, value: v.paths[0].subtree}
		}
	}
	if len(v.exactList) > maxExactList {
		v.exactSet = make(map[string]struct{}, len(v.exactList))
		for _, value := range v.exactList {
			v.exactSet[strings.Clone(value)] = struct{}{}
		}
		v.exactList = nil
	}
	return t
}
