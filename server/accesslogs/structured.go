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

// parseJSON parses a JSON object. Its fields, and those of an object "request" as in Caddy's logs, are fields of the
// request.
func parseJSON(line []byte, into *Request) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return fmt.Errorf("%w: %w", errFormat, err)
	}
	if err := into.setFromJSON(fields); err != nil {
		return err
	}
	if inner := fields["request"]; len(inner) > 0 && inner[0] == '{' {
		var request map[string]json.RawMessage
		if err := json.Unmarshal(inner, &request); err != nil {
			return fmt.Errorf("%w: %w", errFormat, err)
		}
		if err := into.setFromJSON(request); err != nil {
			return err
		}
		var headers map[string][]string
		if err := json.Unmarshal(request["headers"], &headers); err == nil {
			for name, values := range headers {
				if len(values) == 1 && len(into.Attributes) < maxAttributes {
					into.setAttribute("header."+strings.ToLower(name), values[0])
				}
			}
		}
	}
	return into.checkComplete()
}

// maxAttributes is the maximum number of attributes of a request.
const maxAttributes = 48

func (r *Request) setFromJSON(fields map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) { // if two names mean the same field, the last one is used
		raw := fields[name]
		field := fieldOf(name)
		if field == "" || len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || bytes.Equal(raw, []byte("null")) {
			continue
		}
		if len(r.Attributes) >= maxAttributes && field != "time" {
			continue
		}
		text := string(raw)
		if raw[0] == '"' {
			if err := json.Unmarshal(raw, &text); err != nil {
				return fmt.Errorf("%w: %w", errFormat, err)
			}
		}
		if name == "remote_ip" && r.Attributes["ip"] != "" {
			continue // Caddy also logs client_ip, which is the client's; remote_ip may be the address of a proxy
		}
		if err := r.setField(field, text); err != nil {
			return err
		}
	}
	return nil
}

// A csvParser reads lines of CSV after a header line with column names.
type csvParser struct {
	separator rune
	columns   []string // the field of each column, "" if unknown
}

func (p *csvParser) parse(line []byte, into *Request) error {
	if p.columns == nil {
		p.separator = separatorOf(line)
		p.columns = splitHeader(line)
		if p.columns == nil {
			return fmt.Errorf("%w: the first line has no column names such as time,ip,path", errFormat)
		}
		return errHeaderLine // the reader skips this line
	}
	values, err := splitCSV(line, p.separator)
	if err != nil {
		return fmt.Errorf("%w: %w", errFormat, err)
	}
	if len(values) != len(p.columns) {
		return fmt.Errorf("%w: %d columns instead of %d", errFormat, len(values), len(p.columns))
	}
	for i, field := range p.columns {
		if field == "" || len(into.Attributes) >= maxAttributes && field != "time" {
			continue
		}
		if err := into.setField(field, values[i]); err != nil {
			return err
		}
	}
	return into.checkComplete()
}

func separatorOf(line []byte) rune {
	for _, c := range []byte{'\t', ';'} {
		if bytes.Count(line, []byte{c}) > bytes.Count(line, []byte{','}) {
			return rune(c)
		}
	}
	return ','
}

// splitHeader returns the fields of the columns. It returns nil if the line does not name a time and another field.
func splitHeader(line []byte) []string {
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
