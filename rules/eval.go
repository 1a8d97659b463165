package rules

import (
	"slices"
	"strings"

	"github.com/headgate/headgate"
)

// A cond is a Condition made ready: what must all hold, groups of which one must, and what must not.
type cond struct {
	tests []test
	any   [][]cond
	not   []cond
}

// A test is a Test made ready.
type test struct {
	slot int
	kind testKind
	one  string // for testOne, testOneOrNone and testBelow
	more *values
}

type testKind uint8

const (
	testOne       testKind = iota // the value is one
	testOneOrNone                 // it is, or there is none
	testAny                       // there is a value
	testBelow                     // the path is one or below it
	testNet                       // the address is in one of more
	testMore                      // the value is one of more
)

// values are the values of a test that has several, or patterns.
type values struct {
	exact map[string]struct{}
	few   []string // instead of exact if they are not many
	runs  []string // with stars
	paths []pathGlob
	nets  *netTree
}

const fewValues = 8

// empty tells whether there is nothing to look at.
func (c *cond) empty() bool { return len(c.tests) == 0 && len(c.any) == 0 && len(c.not) == 0 }

func (c *cond) holds(p *probe) bool {
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

func anyHolds(conds []cond, p *probe) bool {
	for i := range conds {
		if conds[i].holds(p) {
			return true
		}
	}
	return false
}

func (t *test) holds(p *probe) bool {
	if t.kind == testNet {
		net := p.address()
		return net.IsValid() && t.more.nets.contains(net)
	}
	value, ok := p.get(t.slot)
	switch t.kind {
	case testOne:
		return ok && value == t.one
	case testOneOrNone:
		return !ok || value == t.one
	case testAny:
		return ok
	case testBelow:
		return ok && isBelow(t.one, value)
	default:
		return ok && t.more.match(value)
	}
}

func (v *values) match(value string) bool {
	if slices.Contains(v.few, value) {
		return true
	}
	if _, ok := v.exact[value]; ok {
		return true
	}
	for _, run := range v.runs {
		if matchRun(run, value) {
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

// A reader makes conditions ready, and numbers the attributes they look at.
type reader struct {
	slots map[headgate.Attribute]int
	list  []headgate.Attribute
}

func (r *reader) slot(a headgate.Attribute) int {
	if n, ok := r.slots[a]; ok {
		return n
	}
	n := len(r.list)
	r.slots[a] = n
	r.list = append(r.list, a)
	return n
}

// read makes a condition ready that is known to be right, without the tests that are known to hold.
func (r *reader) read(c *Condition, known []*Test) cond {
	var made cond
	r.add(&made, c, known)
	return made
}

// add adds what a condition asks for. All of its kind are one list: nothing is nested that need not be.
func (r *reader) add(made *cond, c *Condition, known []*Test) {
	for i := range c.Tests {
		if !slices.Contains(known, &c.Tests[i]) {
			made.tests = append(made.tests, r.test(&c.Tests[i]))
		}
	}
	for i := range c.All {
		r.add(made, &c.All[i], known)
	}
	if len(c.Any) == 1 {
		r.add(made, &c.Any[0], known)
	} else if len(c.Any) > 1 {
		group := make([]cond, len(c.Any))
		for i := range c.Any {
			group[i] = r.read(&c.Any[i], nil)
		}
		made.any = append(made.any, group)
	}
	for i := range c.Not {
		made.not = append(made.not, r.read(&c.Not[i], nil))
	}
}

func (r *reader) test(t *Test) test {
	made := test{slot: r.slot(t.Attribute), kind: testMore, more: &values{}}
	for _, value := range t.Values {
		p, _ := readPattern(t.Attribute.Kind, value)
		switch {
		case p.text == anyRun:
			return test{slot: made.slot, kind: testAny}
		case p.net.IsValid():
			made.kind = testNet
			if made.more.nets == nil {
				made.more.nets = newNetTree()
			}
			made.more.nets.add(p.net, 0)
		case p.exact():
			made.more.few = append(made.more.few, p.text)
		case t.Attribute.Kind == headgate.AttrPath:
			made.more.paths = append(made.more.paths, newPathGlob(p.text))
		default:
			made.more.runs = append(made.more.runs, p.text)
		}
	}
	return made.simplified()
}

// simplified returns the same test in its quickest form.
func (t test) simplified() test {
	v := t.more
	if t.kind == testMore && len(v.few)+len(v.runs)+len(v.paths) == 1 {
		switch {
		case len(v.few) == 1:
			return test{slot: t.slot, kind: testOne, one: v.few[0]}
		case len(v.paths) == 1 && v.paths[0].segments == nil && !v.paths[0].oneStar:
			return test{slot: t.slot, kind: testBelow, one: v.paths[0].below}
		}
	}
	if len(v.few) > fewValues {
		v.exact = make(map[string]struct{}, len(v.few))
		for _, value := range v.few {
			v.exact[strings.Clone(value)] = struct{}{}
		}
		v.few = nil
	}
	return t
}
