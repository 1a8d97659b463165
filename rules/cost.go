package rules

import (
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// Cost is how many units a request takes: a number, or what a header says. The zero Cost is 1.
type Cost struct {
	// Units is the number. Default 1; not together with a header.
	Units int64
	// Header is the request header that says it. Whoever sends no whole number takes Min, and of several the largest counts.
	Header string `field:"header"`
	// ResponseHeader is the header or trailer of the response that says it afterwards. Estimate is taken first, and the
	// difference charged or given back.
	ResponseHeader string `field:"response_header"`
	// Estimate is what to take before the response is there. Default 1.
	Estimate int64 `field:"estimate"`
	// Min is the least that a header can say. Default 1; 0 for a response header.
	Min int64 `field:"min"`
	// Max is the most that a header can say. It must be given for a request header, since clients write those. Beside a
	// response header it is also what a request takes whose response was cut short before it said its cost, as clients can cut
	// it short. Default there is the smallest capacity of the limits that the request came under, and no bound on what the
	// header can say.
	Max int64 `field:"max"`
}

// Reserve returns what to take from the limits before the request is served.
func (c *Cost) Reserve(s Subject) int64 {
	switch {
	case c.Header != "":
		text, _ := s.Get(headgate.Attribute{Kind: headgate.AttrHeader, Name: c.Header})
		n, _ := c.read(text)
		return n
	case c.ResponseHeader != "":
		return max(c.Estimate, 1)
	default:
		return max(c.Units, 1)
	}
}

// Settle returns what the request has cost according to its response header. It is false for one that says no whole
// number: the estimate stands, unless the response was cut short.
func (c *Cost) Settle(header string) (int64, bool) { return c.read(header) }

// read returns the whole number that a text says, within the bounds, or Min and false. Of a header that is there several times
// the largest counts: the service may go by any of them.
func (c *Cost) read(text string) (int64, bool) {
	n, ok := c.Min, false
	for more := true; more; {
		var one string
		one, text, more = strings.Cut(text, ",")
		if said, is := c.readOne(one); is {
			n, ok = max(n, said), true
		}
	}
	return n, ok
}

func (c *Cost) readOne(text string) (int64, bool) {
	text = strings.Trim(text, " \t")
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return c.Min, false
	}
	most := c.Max
	if most == 0 {
		most = headgate.MaxCount
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n = most // it has too many digits
	}
	return min(max(n, c.Min), most), true
}

// least returns the least that every request takes.
func (c *Cost) least() int64 {
	switch {
	case c.Header != "":
		return max(c.Min, 1)
	case c.ResponseHeader != "":
		return max(c.Estimate, 1)
	default:
		return max(c.Units, 1)
	}
}

// normal returns the cost with its defaults filled in.
func (c Cost) normal() Cost {
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

func (c *Cost) validate(at *place, p *problems) {
	number := func(field string, n int64) {
		if n < 0 || n > headgate.MaxCount {
			p.add(at.field(field), strconv.FormatInt(n, 10), "1 to "+strconv.FormatInt(headgate.MaxCount, 10))
		}
	}
	refuse := func(field string, given bool, why string) {
		if given {
			p.add(at.field(field), "", "none: "+why)
		}
	}
	number("estimate", c.Estimate)
	number("min", c.Min)
	number("max", c.Max)
	switch {
	case c.Header != "" && c.ResponseHeader != "":
		p.add(at, "", "header or response_header, not both")
	case c.Header == "" && c.ResponseHeader == "":
		if c.Units < 0 || c.Units > headgate.MaxCount {
			p.add(at, strconv.FormatInt(c.Units, 10), "1 to "+strconv.FormatInt(headgate.MaxCount, 10)+
				"; a rule whose requests cost nothing limits nothing")
		}
		const why = "only a cost that a header says has one"
		refuse("estimate", c.Estimate != 0, why)
		refuse("min", c.Min != 0, why)
		refuse("max", c.Max != 0, why)
		return
	case c.Header != "":
		validateHeader(at.field("header"), p, c.Header)
		refuse("estimate", c.Estimate != 0, "only response_header has one")
		if c.Max == 0 {
			p.add(at, "header "+Quote(c.Header), "a max as well: clients write this header, and could say any number")
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
			p.add(at.field(f.name), strconv.FormatInt(f.n, 10), "at most max, which is "+strconv.FormatInt(c.Max, 10))
		}
	}
}

func validateHeader(at *place, p *problems, name string) {
	if len(name) > headgate.MaxAttributeName || !isToken(name) {
		p.add(at, Quote(name), "the name of a header: letters, digits and -_ and the like, without spaces and colons")
	}
}
