package accesslogs

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// parseJSON parses an object of fields. The object "request" is read as Caddy writes it.
func parseJSON(line []byte, into *Request) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return fmt.Errorf("%w: %w", errFormat, err)
	}
	if err := into.setJSON(fields); err != nil {
		return err
	}
	if inner := fields["request"]; len(inner) > 0 && inner[0] == '{' {
		var request map[string]json.RawMessage
		if err := json.Unmarshal(inner, &request); err != nil {
			return fmt.Errorf("%w: %w", errFormat, err)
		}
		if err := into.setJSON(request); err != nil {
			return err
		}
		var headers map[string][]string
		if err := json.Unmarshal(request["headers"], &headers); err == nil {
			for name, values := range headers {
				if len(values) == 1 && len(into.Attributes) < maxFields {
					into.set("header."+strings.ToLower(name), values[0])
				}
			}
		}
	}
	return into.complete()
}

// maxFields bounds the attributes of a request.
const maxFields = 48

func (r *Request) setJSON(fields map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) { // if two names mean the same, the last one counts
		raw := fields[name]
		field := fieldOf(name)
		if field == "" || len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || bytes.Equal(raw, []byte("null")) {
			continue
		}
		if len(r.Attributes) >= maxFields && field != "time" {
			continue
		}
		text := string(raw)
		if raw[0] == '"' {
			if err := json.Unmarshal(raw, &text); err != nil {
				return fmt.Errorf("%w: %w", errFormat, err)
			}
		}
		if name == "remote_ip" && r.Attributes["ip"] != "" {
			continue // Caddy's client_ip is the address behind trusted proxies
		}
		if err := r.setField(field, text); err != nil {
			return err
		}
	}
	return nil
}

// A csvParser reads lines of CSV after a line of column names.
type csvParser struct {
	separator rune
	columns   []string // what each column means, "" if nothing
}

func (p *csvParser) parse(line []byte, into *Request) error {
	if p.columns == nil {
		p.separator = separatorOf(line)
		p.columns = splitHeading(line)
		if p.columns == nil {
			return fmt.Errorf("%w: the first line has no column names such as time,ip,path", errFormat)
		}
		return errHeading
	}
	values, err := splitCSV(line, p.separator)
	if err != nil {
		return fmt.Errorf("%w: %w", errFormat, err)
	}
	if len(values) != len(p.columns) {
		return fmt.Errorf("%w: %d columns instead of %d", errFormat, len(values), len(p.columns))
	}
	for i, field := range p.columns {
		if field == "" || len(into.Attributes) >= maxFields && field != "time" {
			continue
		}
		if err := into.setField(field, values[i]); err != nil {
			return err
		}
	}
	return into.complete()
}

func separatorOf(line []byte) rune {
	for _, c := range []byte{'\t', ';'} {
		if bytes.Count(line, []byte{c}) > bytes.Count(line, []byte{','}) {
			return rune(c)
		}
	}
	return ','
}

// splitHeading returns what the columns mean, nil if the line does not name a time and another column.
func splitHeading(line []byte) []string {
	names, err := splitCSV(line, separatorOf(line))
	if err != nil {
		return nil
	}
	hasTime, others := false, 0
	columns := make([]string, len(names))
	for i, name := range names {
		columns[i] = fieldOf(name)
		switch columns[i] {
		case "":
		case "time":
			hasTime = true
		default:
			others++
		}
	}
	if !hasTime || others == 0 {
		return nil
	}
	return columns
}

func splitCSV(line []byte, separator rune) ([]string, error) {
	r := csv.NewReader(bytes.NewReader(line))
	r.Comma, r.LazyQuotes, r.TrimLeadingSpace = separator, true, separator != '\t'
	return r.Read()
}
