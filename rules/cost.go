package rules

import (
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/internal/pattern"
)

// Cost is the number of units that a request takes: a constant, or the value of a header. The zero value is a
// constant cost of 1.
type Cost struct {
	// Units is the constant. Default 1. It must be 0 if Header or ResponseHeader is set.
	Units int64
	// Header is the name of the request header that contains the cost. If the header has several values, the largest
	// is used. If none of its values is a whole number, the cost is Min.
	Header string `field:"header"`
	// ResponseHeader is the name of the response header or trailer that contains the cost. Before the response, the units
	// of Estimate are taken. When the cost is known, the difference is charged or refunded.
	ResponseHeader string `field:"response_header"`
	// Estimate is the cost that is taken before the response. Default 1.
	Estimate int64 `field:"estimate"`
	// Min is the lower bound of the header's value. Default 1 for Header, 0 for ResponseHeader.
	Min int64 `field:"min"`
	// Max is the upper bound of the header's value. It is required with Header, because clients set that header.
	//
	// With ResponseHeader, Max is also the cost of a request if its response ends before the header or trailer arrives;
	// otherwise clients could save units by disconnecting early. If Max is 0, such a request costs the smallest capacity
	// of the limits that apply to it, and the header's value has no upper bound.
	Max int64 `field:"max"`
}

// Initial returns the number of units to take before the request is served.
func (c *Cost) Initial(s Subject) int64 {
	switch {
	case c.Header != "":
		text, _ := s.Get(headgate.Attribute{Kind: headgate.AttrHeader, Name: c.Header})
		n, _ := c.parse(text)
		return n
	case c.ResponseHeader != "":
		return max(c.Estimate, 1)
	default:
		return max(c.Units, 1)
	}
}

// FromResponse returns the cost in the value of ResponseHeader. ok is false if the value has no whole number. In that
// case the estimate is the final cost, unless the response ended before the header or trailer arrived: see Max.
func (c *Cost) FromResponse(value string) (cost int64, ok bool) { return c.parse(value) }

// parse returns the largest whole number in a list of values, clamped to Min and Max. A service that receives several
// values may act on any of them, so the largest counts. If there is no whole number, parse returns Min and false.
func (c *Cost) parse(text string) (n int64, ok bool) {
	n = c.Min
	for item := range strings.SplitSeq(text, ",") {
		if value, valid := c.parseNumber(item); valid {
			n, ok = max(n, value), true
		}
	}
	return n, ok
}

func (c *Cost) parseNumber(text string) (int64, bool) {
	text = strings.Trim(text, " \t")
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return c.Min, false
	}
	maximum := c.Max
	if maximum == 0 {
		maximum = headgate.MaxCount
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n = maximum // too many digits
	}
	return min(max(n, c.Min), maximum), true
}

// minimum returns the smallest number of units that a request can take before it is served.
func (c *Cost) minimum() int64 {
	switch {
	case c.Header != "":
		return max(c.Min, 1)
	case c.ResponseHeader != "":
		return max(c.Estimate, 1)
	default:
		return max(c.Units, 1)
	}
}

// withDefaults returns the cost with its defaults filled in.
func (c Cost) withDefaults() Cost {
	switch {
	case c.Header != "":
		c.Header = strings.ToLower(c.Header)
		c.Min = max(c.Min, 1)
	case c.ResponseHeader != "":
		c.Estimate = max(c.Estimate, 1)
	default:
		c.Units = max(c.Units, 1)
	}
	return c
}

func (c *Cost) validate(at *location, p *problems) {
	checkNumber := func(field string, n int64) {
		if n < 0 || n > headgate.MaxCount {
			p.add(at.field(field), strconv.FormatInt(n, 10), "1 to "+strconv.FormatInt(headgate.MaxCount, 10))
		}
	}
	refuse := func(field string, n int64, usedWith string) {
		if n != 0 {
			p.add(at.field(field), "", "no "+field+"; it is only used with "+usedWith)
		}
	}
	checkNumber("estimate", c.Estimate)
	checkNumber("min", c.Min)
	checkNumber("max", c.Max)
	switch {
	case c.Header != "" && c.ResponseHeader != "":
		p.add(at, "", "header or response_header, not both")
	case c.Header == "" && c.ResponseHeader == "":
		if c.Units < 0 || c.Units > headgate.MaxCount {
			p.add(at, strconv.FormatInt(c.Units, 10), "1 to "+strconv.FormatInt(headgate.MaxCount, 10))
		}
		refuse("estimate", c.Estimate, "response_header")
		refuse("min", c.Min, "header or response_header")
		refuse("max", c.Max, "header or response_header")
		return
	case c.Header != "":
		validateHeader(at.field("header"), p, c.Header)
		refuse("estimate", c.Estimate, "response_header")
		if c.Max == 0 {
			p.add(at, "header "+Quote(c.Header), "also a max, because clients set this header and could send any number")
		}
	default:
		validateHeader(at.field("response_header"), p, c.ResponseHeader)
	}
	if c.Units != 0 {
		p.add(at, strconv.FormatInt(c.Units, 10), "a number or a header, not both")
	}
	if c.Max == 0 {
		return
	}
	for _, f := range []struct {
		name string
		n    int64
	}{{"min", c.Min}, {"estimate", c.Estimate}} {
		if f.n > c.Max {
			p.add(at.field(f.name), strconv.FormatInt(f.n, 10), "at most max, "+strconv.FormatInt(c.Max, 10))
		}
	}
}

func validateHeader(at *location, p *problems, name string) {
	if len(name) > headgate.MaxAttributeName || !pattern.IsToken(name) {
		p.add(at, Quote(name), "the name of a header: letters, digits and symbols such as - and _, without spaces and colons")
	}
}
