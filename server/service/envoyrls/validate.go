package envoyrls

import (
	"math"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
)

// wildcard matches any text in a key or value.
const wildcard = "*"

// problemList collects the problems of a document. known are problems found while decoding it.
type problemList struct {
	file  *source.File
	known []source.Problem
	list  []source.Problem
}

func (c *problemList) add(path, value, want string) {
	if source.Follows(path, c.known) {
		return
	}
	line, column := c.file.Locate(path)
	c.list = append(c.list, source.Problem{Path: path, Value: value, Want: want, Line: line, Column: column})
}

// validate returns the document's problems, except those that are consequences of known problems.
func (d *Document) validate(known []source.Problem) []source.Problem {
	c := &problemList{file: d.file, known: known}
	if d.Domain == "" && (d.file.Root == nil || d.file.Root.Kind == source.Map) {
		c.add("domain", "", "a name for the domain, which requests must give")
	}
	c.descriptors("descriptors", d.Descriptors)
	return c.list
}

func (c *problemList) descriptors(path string, list []Descriptor) {
	type entry struct{ key, value string }
	seen := make(map[entry]int, len(list))
	for i := range list {
		d := &list[i]
		itemPath := path + "[" + strconv.Itoa(i) + "]"
		if d.Key == "" {
			c.add(itemPath+".key", "", "the key of an entry, not empty")
		} else if first, twice := seen[entry{d.Key, d.Value}]; twice {
			line, _ := c.file.Locate(path + "[" + strconv.Itoa(first) + "]")
			c.add(itemPath, "a second "+d.label(), "each key and value once in a list; line "+strconv.Itoa(line)+" has the same")
		} else {
			seen[entry{d.Key, d.Value}] = i
		}
		if d.ShareThreshold && !strings.Contains(d.label(), wildcard) {
			c.add(itemPath+".share_threshold", "true", "a key or value that contains *, whose matches share the limit")
		}
		if d.Limit != nil {
			if d.RateLimit != nil {
				c.add(itemPath+".limit", d.Limit.String(), "either this or rate_limit")
			}
			c.limit(itemPath+".limit", d.Limit)
		}
		if d.RateLimit != nil {
			c.rateLimit(itemPath+".rate_limit", d.RateLimit)
		}
		c.descriptors(itemPath+".descriptors", d.Descriptors)
	}
}

// label returns the name of a descriptor in messages and metrics.
func (d *Descriptor) label() string {
	if d.Value == "" {
		return d.Key
	}
	return d.Key + "_" + d.Value
}

func (c *problemList) rateLimit(path string, r *RateLimit) {
	switch {
	case r.Limit != nil:
		if r.Unlimited {
			c.add(path+".unlimited", "true", "either this or limit")
		}
		if r.Unit != UnitUnknown || r.RequestsPerUnit != 0 {
			c.add(path+".limit", r.Limit.String(), "either this or unit and requests_per_unit")
		}
		c.limit(path+".limit", r.Limit)
	case r.Unlimited:
		if r.Unit != UnitUnknown {
			c.add(path+".unit", r.Unit.String(), "no unit with unlimited")
		}
	case r.Unit == UnitUnknown:
		c.add(path+".unit", "", "second, minute, hour, day, week, month or year")
	}
	if r.RequestsPerUnit < 0 || r.RequestsPerUnit > math.MaxUint32 {
		c.add(path+".requests_per_unit", strconv.FormatInt(r.RequestsPerUnit, 10), "0 to "+strconv.FormatInt(math.MaxUint32,
			10))
	}
	for i, replaced := range r.Replaces {
		itemPath := path + ".replaces[" + strconv.Itoa(i) + "].name"
		switch replaced.Name {
		case "":
			c.add(itemPath, "", "the name of another limit")
		case r.Name:
			c.add(itemPath, rules.Quote(r.Name), "the name of another limit, not of this one")
		}
	}
}

// limit adds a problem for a concurrency limit, which needs to know when a request ends.
func (c *problemList) limit(path string, l *headgate.Limit) {
	if l.Algorithm == headgate.Concurrency {
		c.add(path, l.String(), "a limit on requests per period: Envoy does not report when a request ends")
	}
}
