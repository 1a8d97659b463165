package source

import "testing"

func TestExcerptsShowNoPasswords(t *testing.T) {
	for line, shown := range map[string]bool{
		`limits: [ten/s]`:                             true,
		`upstreams: ["http://host:80"]`:               true,
		`url: http://host # mail ops@example.com`:     true,
		`upstreams: ["http://u:s3cret@h:80"]`:         false,
		`store: redis://:s3cret@h`:                    false,
		`upstreams: ["http://a:80", "//u:s3/cret@h"]`: false,
	} {
		if got := excerpt([]byte(line), 1); (got != "") != shown {
			t.Errorf("excerpt of %s = %q, want one: %v", line, got, shown)
		}
	}
}
