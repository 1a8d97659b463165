package jwt

import (
	"strings"
	"testing"
)

func BenchmarkVerify(b *testing.B) {
	i := theIssuer()
	v := verifier(b, Config{Issuer: "https://login.example", Audience: []string{"api"}})
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		token := i.token(alg)
		b.Run(alg+"/seen", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(token); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(alg+"/new", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v.cache = tokenCache{}
				if _, err := v.Verify(token); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(alg+"/forged", func(b *testing.B) {
			forged := strings.Replace(token, token[len(token)-20:len(token)-16], "AAAA", 1)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(forged); err == nil {
					b.Fatal("believed")
				}
			}
		})
	}
	b.Run("garbage", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := v.Verify("opaque-token-0123456789abcdef"); err == nil {
				b.Fatal("believed")
			}
		}
	})
}
