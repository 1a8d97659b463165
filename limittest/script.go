package limittest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// A scriptCase is a case of a parsed script.
type scriptCase struct {
	name  string
	steps []step
}

// A step is one line of a case with an action.
type step struct {
	pos    string // file:line
	text   string
	at     time.Duration // since Start
	verb   string
	checks []scriptCheck
	wants  []want // the expected outcomes: one per check, or a single error
}

type scriptCheck struct {
	headgate.Check
	saveAs  string // name to store the receipt under
	receipt string // name of the receipt to refund
}

// parseScript returns the cases of a script. Its error contains the position in the file.
func parseScript(file, text string) ([]scriptCase, error) {
	p := scriptParser{file: file}
	for i, line := range strings.Split(text, "\n") {
		p.line = i + 1
		line = strings.TrimSpace(uncomment(line))
		if line == "" {
			continue
		}
		if err := p.parseLine(line); err != nil {
			return nil, fmt.Errorf("%s: %w", p.pos(), err)
		}
	}
	if len(p.cases) == 0 {
		return nil, fmt.Errorf("%s: no case", file)
	}
	return p.cases, nil
}

func uncomment(line string) string {
	if strings.HasPrefix(line, "#") {
		return ""
	}
	before, _, _ := strings.Cut(line, " #")
	return before
}

type scriptParser struct {
	file     string
	line     int
	cases    []scriptCase
	names    map[string]bool           // names of the cases so far
	limits   map[string]headgate.Limit // limits of the current case by name; "" for the one without a name
	receipts map[string]bool           // names of the receipts of the current case
}

func (p *scriptParser) pos() string { return p.file + ":" + strconv.Itoa(p.line) }

func (p *scriptParser) parseLine(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	if word != "case" && len(p.cases) == 0 {
		return fmt.Errorf("%q before the first case", word)
	}
	switch word {
	case "case":
		return p.parseCase(rest)
	case "limit":
		return p.parseLimit(rest)
	case "at":
		return p.parseStep(line, rest)
	default:
		return fmt.Errorf("unknown word %q: want case, limit or at", word)
	}
}

func (p *scriptParser) parseCase(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("case without a name")
	case p.names[name]:
		return fmt.Errorf("second case with the name %q", name)
	case p.names == nil:
		p.names = make(map[string]bool)
	}
	p.names[name] = true
	p.cases = append(p.cases, scriptCase{name: name})
	p.limits = make(map[string]headgate.Limit)
	p.receipts = make(map[string]bool)
	return nil
}

func (p *scriptParser) parseLimit(text string) error {
	name := ""
	if before, after, named := strings.Cut(text, "="); named {
		if name, text = strings.TrimSpace(before), after; name == "" {
			return fmt.Errorf("no name before =")
		}
	}
	text, number, isCustom := strings.Cut(text, " custom-")
	l, err := headgate.ParseLimit(text)
	if err != nil {
		return err
	}
	if isCustom {
		n, err := strconv.ParseUint(number, 10, 7)
		if err != nil || l.Algorithm != headgate.TokenBucket {
			return fmt.Errorf("limit %q: want custom-N at its end, from custom-0 to custom-127", text+" custom-"+number)
		}
		l.Algorithm = headgate.FirstCustom + headgate.Algorithm(n)
	}
	p.limits[name] = l
	return nil
}

func (p *scriptParser) parseStep(line, rest string) error {
	action, outcomes, hasOutcomes := strings.Cut(rest, " -> ")
	w := words(strings.Fields(action))
	s := step{pos: p.pos(), text: line}
	var err error
	if s.at, err = parseTime(w.next()); err != nil {
		return err
	}
	s.verb = w.next()
	takesChecks := false
	switch s.verb {
	case "take", "charge", "takeall":
		takesChecks = true
	case "peek", "give", "renew", "reset":
	default:
		return fmt.Errorf("unknown verb %q: want take, peek, charge, give, renew, reset or takeall", s.verb)
	}
	for more := true; more; {
		c, err := p.parseCheck(s.verb, &w, takesChecks)
		if err != nil {
			return err
		}
		s.checks = append(s.checks, c)
		more = s.verb == "takeall" && w.accept("and")
	}
	if len(w) > 0 {
		return fmt.Errorf("unexpected %q", w[0])
	}
	if s.wants, err = parseWants(outcomes, hasOutcomes, &s); err != nil {
		return err
	}
	c := &p.cases[len(p.cases)-1]
	c.steps = append(c.steps, s)
	return nil
}

// parseCheck parses KEY [COST] [of RECEIPT] [under NAME] [as RECEIPT]. The verb determines which parts are present.
func (p *scriptParser) parseCheck(verb string, w *words, takes bool) (scriptCheck, error) {
	var c scriptCheck
	if c.Key = w.next(); c.Key == "" {
		return c, fmt.Errorf("%s without a key", verb)
	}
	if verb == "reset" {
		return c, nil
	}
	usesReceipt := verb == "give" || verb == "renew"
	if takes || usesReceipt {
		text := w.next()
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return c, fmt.Errorf("cost %q: want a whole number", text)
		}
		c.Cost = n
	}
	if usesReceipt {
		if !w.accept("of") {
			return c, fmt.Errorf(`%s without a receipt: want "of NAME"`, verb)
		}
		if c.receipt = w.next(); !p.receipts[c.receipt] {
			return c, fmt.Errorf("unknown receipt %q", c.receipt)
		}
	}
	name := ""
	if w.accept("under") {
		name = w.next()
	}
	limit, ok := p.limits[name]
	switch {
	case !ok && name == "":
		return c, fmt.Errorf("no limit yet")
	case !ok:
		return c, fmt.Errorf("unknown limit %q", name)
	}
	c.Limit = limit
	if takes && w.accept("as") {
		if c.saveAs = w.next(); c.saveAs == "" {
			return c, fmt.Errorf(`"as" without the name of a receipt`)
		}
		p.receipts[c.saveAs] = true
	}
	return c, nil
}

// words are the remaining words of a line.
type words []string

// next returns and removes the next word, "" at the end.
func (w *words) next() string {
	if len(*w) == 0 {
		return ""
	}
	word := (*w)[0]
	*w = (*w)[1:]
	return word
}

// accept removes the next word if it equals word, and reports whether it did.
func (w *words) accept(word string) bool {
	if len(*w) == 0 || (*w)[0] != word {
		return false
	}
	*w = (*w)[1:]
	return true
}

// parseTime parses a sum of durations, such as 1.5s, -2m or 1h-1us.
func parseTime(text string) (time.Duration, error) {
	var sum time.Duration
	for rest := text; ; {
		end := len(rest)
		if i := strings.IndexAny(rest[min(1, len(rest)):], "+-"); i >= 0 { // the first character may be the sign of this term
			end = i + 1
		}
		d, err := time.ParseDuration(rest[:end])
		if err != nil {
			return 0, fmt.Errorf("time %q: want one such as 1.5s or 1m-1us", text)
		}
		sum += d
		if rest = rest[end:]; rest == "" {
			return sum, nil
		}
	}
}
