// Package accesslogs reads the requests in access log files: common and combined (Apache, nginx), JSON lines (Caddy,
// Headgate's gateway, nginx with a JSON format) and CSV.
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
// Lines that cannot be read are counted, never an error: see Reader.Stats.
package accesslogs
