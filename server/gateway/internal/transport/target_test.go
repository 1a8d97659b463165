package transport

import "testing"

func TestUpstreamURLs(t *testing.T) {
	for url, want := range map[string]Target{
		"http://a.example":        {Network: "tcp", Address: "a.example:80", Host: "a.example", Name: "a.example"},
		"http://a.example:8080/":  {Network: "tcp", Address: "a.example:8080", Host: "a.example:8080", Name: "a.example"},
		"https://a.example":       {Network: "tcp", Address: "a.example:443", Host: "a.example", Name: "a.example", TLS: true},
		"http://[2001:db8::1]:80": {Network: "tcp", Address: "[2001:db8::1]:80", Host: "[2001:db8::1]:80", Name: "2001:db8::1"},
		"h2c://10.0.0.1:50051":    {Network: "tcp", Address: "10.0.0.1:50051", Host: "10.0.0.1:50051", Name: "10.0.0.1", HTTP2: true},
		"h2://a.example":          {Network: "tcp", Address: "a.example:443", Host: "a.example", Name: "a.example", TLS: true, HTTP2: true},
		"unix:/run/app.sock":      {Network: "unix", Address: "/run/app.sock", Host: "localhost"},
		"unix:///run/app.sock":    {Network: "unix", Address: "/run/app.sock", Host: "localhost"},
		"unix+h2c:/run/grpc.sock": {Network: "unix", Address: "/run/grpc.sock", Host: "localhost", HTTP2: true},
	} {
		got, err := ParseTarget(url)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", url, got, err, want)
		}
	}
}
