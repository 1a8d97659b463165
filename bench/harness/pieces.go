package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"time"
)

// A part can be measured in pieces if the machine is not quiet for long enough. Each piece has some of the scenarios.
// Results are compared only within a piece.

// JoinFile adds the results of earlier pieces of a part, from a file written with -json.
func (r *Results) JoinFile(p Part, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("earlier pieces: %w", err)
	}
	var list []*Results
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("earlier pieces in %s: %w", path, err)
	}
	for _, earlier := range list {
		if earlier.Part != r.Part {
			continue
		}
		if err := r.Join(p, earlier); err != nil {
			return fmt.Errorf("earlier pieces in %s: %w", path, err)
		}
		return nil
	}
	return fmt.Errorf("earlier pieces in %s: none is of the part %s", path, r.Part)
}

// Join adds the results of an earlier piece.
func (r *Results) Join(p Part, earlier *Results) error {
	if r.Quick != earlier.Quick || !reflect.DeepEqual(r.Sizes, earlier.Sizes) {
		return fmt.Errorf("they were measured at other sizes: want the same -rounds and -quick")
	}
	to, from := reflect.ValueOf(r).Elem(), reflect.ValueOf(earlier).Elem()
	for i := range to.NumField() {
		name, field, added := to.Type().Field(i).Name, to.Field(i), from.Field(i)
		switch name {
		case "Versions", "Bars":
			continue
		}
		switch field.Kind() {
		case reflect.Slice:
			field.Set(reflect.AppendSlice(added, field))
		case reflect.Pointer:
			if !field.IsNil() && !added.IsNil() {
				return fmt.Errorf("%s is in both", name)
			}
			if field.IsNil() {
				field.Set(added)
			}
		default: // of the run itself, not measured
		}
	}
	all := r.Took + earlier.Took
	r.Machine.Steal = (r.Machine.Steal*r.Took.Seconds() + earlier.Machine.Steal*earlier.Took.Seconds()) / max(
		all.Seconds(), time.Nanosecond.Seconds())
	r.Machine.Load = max(r.Machine.Load, earlier.Machine.Load)
	r.Took, r.Started, r.Pieces = all, earlier.Started, max(earlier.Pieces, 1)+1
	r.Only += "|" + earlier.Only
	if whole, err := p.wholeIn(r.Only); err != nil {
		return err
	} else if whole {
		r.Only = ""
	}
	r.Bars = p.Bars(r)
	return nil
}

// wholeIn reports whether a pattern names all scenarios of the part.
func (p *Part) wholeIn(pattern string) (bool, error) {
	only, err := regexp.Compile(pattern)
	if err != nil {
		return false, err
	}
	for _, s := range p.Scenarios {
		if !only.MatchString(s.Name) {
			return false, nil
		}
	}
	return true, nil
}
