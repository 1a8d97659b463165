// Package accesslogs reads requests from access log files. It supports the common and combined formats (Apache, nginx),
// JSON lines (Caddy, Headgate's gateway, nginx with a JSON format) and CSV.
//
//	logs, err := accesslogs.Open("access.log.gz", nil, accesslogs.Options{})
//	defer logs.Close()
//	for {
//		var r accesslogs.Request
//		if err := logs.Read(&r); err == io.EOF {
//			break
//		}
//		// r.Time, r.Attributes["ip"], r.Attributes["path"], …
//	}
//
// Malformed lines are skipped and counted in Reader.Stats; they are not errors.
package accesslogs
