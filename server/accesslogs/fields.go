package accesslogs

import (
	"math"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// fieldNames maps the names that logs use, in lower case, to fields of a Request.
var fieldNames = map[string]string{
	"time": "time", "timestamp": "time", "@timestamp": "time", "ts": "time", "date": "time", "datetime": "time",
	"time_iso8601": "time", "time_local": "time", "msec": "time", "start_time": "time", "start_utc": "time",
	"startutc": "time",
	"ip":       "ip", "client_ip": "ip", "clientip": "ip", "remote_addr": "ip", "remote_ip": "ip", "remoteaddr": "ip",
	"client_addr": "ip", "clienthost": "ip", "source_ip": "ip", "remote_host": "ip",
	"user": "user", "remote_user": "user", "user_id": "user", "userid": "user", "clientusername": "user",
	"username": "user",
	"method":   "method", "request_method": "method", "requestmethod": "method", "verb": "method",
	"host": "host", "http_host": "host", "server_name": "host", "requesthost": "host", "authority": "host",
	"path": "path", "uri": "path", "request_uri": "path", "url": "path", "requestpath": "path",
	"request": "request", "status": "status", "status_code": "status", "response_code": "status",
	"downstreamstatus": "status", "originstatus": "status",
	"apikey": "api_key", "user_agent": "header.user-agent", "http_user_agent": "header.user-agent",
	"referer": "header.referer", "http_referer": "header.referer", "referrer": "header.referer",
	"client": "client", "query": "query", "query_string": "query", "args": "query",
}

// fieldOf returns the field for the name of a JSON field or a CSV column, or "" if the name is unknown.
func fieldOf(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	if known := fieldNames[name]; known != "" {
		return known
	}
	if _, err := headgate.ParseAttribute(name); err == nil {
		return name
	}
	return ""
}

// setField sets the attributes, the time or the status from the value of a field.
func (r *Request) setField(field, value string) error {
	if value == "" || value == "-" {
		return nil
	}
	switch field {
	case "time":
		at, ok := parseTime(value)
		if !ok {
			return errTime
		}
		r.Time = at
	case "status":
		r.setStatus(value)
	case "path":
		r.setTarget(value)
	case "request":
		r.setRequestLine(value)
	case "query":
		r.setQuery(strings.TrimPrefix(value, "?"))
	case "client": // in Headgate's access log, this is an address; in others, it may be a name
		if _, err := netip.ParseAddr(value); err == nil {
			field = "ip"
		} else {
			field = "user"
		}
		r.setAttribute(field, value)
	default:
		r.setAttribute(field, value)
	}
	return nil
}

// checkComplete returns an error if the request has no time or no attributes.
func (r *Request) checkComplete() error {
	switch {
	case r.Time.IsZero():
		return errTime
	case len(r.Attributes) == 0:
		return errNothing
	}
	return nil
}

func (r *Request) setAttribute(attribute, value string) {
	if value != "" && value != "-" {
		r.Attributes[attribute] = value
	}
}

func (r *Request) setStatus(text string) {
	if n, err := strconv.Atoi(text); err == nil && n >= 100 && n < 1000 {
		r.Status = n
	}
}

// setRequestLine sets method and path from a text such as "GET /a HTTP/1.1".
func (r *Request) setRequestLine(text string) bool {
	method, rest, ok := strings.Cut(text, " ")
	if !ok || method == "" || rest == "" {
		return false
	}
	if at := strings.LastIndex(rest, " HTTP/"); at >= 0 {
		rest = rest[:at]
	}
	r.setAttribute("method", method)
	r.setTarget(rest)
	return true
}

// maxQuery is the maximum number of query parameters of a request that are read.
const maxQuery = 16

// setTarget sets path and query. If the target is an absolute URL, it also sets the host.
func (r *Request) setTarget(target string) {
	if rest, ok := strings.CutPrefix(target, "http://"); ok {
		target = rest
	} else if rest, ok := strings.CutPrefix(target, "https://"); ok {
		target = rest
	}
	if target != "" && target[0] != '/' && target != "*" {
		host, path, _ := strings.Cut(target, "/")
		r.setAttribute("host", host)
		target = "/" + path
	}
	path, query, _ := strings.Cut(target, "?")
	path, _, _ = strings.Cut(path, "#")
	r.setAttribute("path", path)
	r.setQuery(query)
}

func (r *Request) setQuery(query string) {
	for n := 0; query != "" && n < maxQuery; n++ {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil || name == "" || len(name) > headgate.MaxAttributeName || r.Attributes["query."+name] != "" {
			continue
		}
		if value, err := url.QueryUnescape(value); err == nil {
			r.setAttribute("query."+name, value)
		}
	}
}

var timeLayouts = []string{
	"02/Jan/2006:15:04:05 -0700", time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04:05.999999999", "2006-01-02T15:04:05.999999999-0700", "2006/01/02 15:04:05.999999999",
	time.RFC1123Z, time.RFC1123,
}

// parseTime reads a time in the formats of logs, or as seconds, milliseconds, microseconds or nanoseconds since 1970.
func parseTime(text string) (time.Time, bool) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n <= 0 {
		return time.Time{}, false
	}
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
		switch {
		// Larger numbers would be years after 5000, so they are in a smaller unit.
		case whole < 1e11:
			return time.Unix(whole, 0), true
		case whole < 1e14:
			return time.UnixMilli(whole), true
		case whole < 1e17:
			return time.UnixMicro(whole), true
		}
		return time.Unix(0, whole), true
	}
	if n > 1e11 { // milliseconds with a fraction
		n /= 1000
	}
	if n > 1e11 {
		return time.Time{}, false
	}
	return time.UnixMicro(int64(math.Round(n * 1e6))), true
}
